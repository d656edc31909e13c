package bitstream_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/bitstream"
	"lockstep/catalog"
	"lockstep/resourcesync"
)

// patches receives a test's patches.
type patches struct {
	mu  sync.Mutex // guards all
	all map[string][]byte
}

func (p *patches) put(_ context.Context, _ string, patch []byte) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all = make(map[string][]byte)
	}
	href := fmt.Sprintf("https://example.org/patch/%d", len(p.all))
	p.all[href] = append([]byte(nil), patch...)
	return href, nil
}

func TestPast(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir(), nil, nil, bitstream.SetOptions{Past: true})
	write(t, w.root, "a", "first")
	write(t, w.root, "b", "stays")
	w.scan(t)
	if n := w.blobs(t); n != 0 {
		t.Errorf("%d representations kept before the first Mark, want none", n)
	}
	w.mark(t)
	for _, text := range []string{"second", "third, and longer", ""} {
		write(t, w.root, "a", text)
		w.scan(t)
	}
	must(t, os.Remove(filepath.Join(w.root, "a")))
	w.scan(t)
	write(t, w.root, "a", "back")
	w.scan(t)

	var got []string
	for _, c := range w.changes(t) {
		text, kept := w.past(t, &c)
		if kept == (c.Change == resourcesync.Deleted) {
			t.Errorf("change %d, %v: kept is %v", c.Seq, c.Change, kept)
		}
		got = append(got, c.Change.String()+" "+text)
	}
	want := "updated second|updated third, and longer|updated |deleted |created back"
	if s := strings.Join(got, "|"); s != want {
		t.Errorf("got %s, want %s", s, want)
	}
}

// TestUnchanged: touching a file without changing it has no effect.
func TestUnchanged(t *testing.T) {
	t.Parallel()
	opened := 0
	var w *world
	w = newWorld(t, t.TempDir(), nil, nil, bitstream.SetOptions{Past: true,
		Open: func(_ context.Context, r *catalog.Record) (io.ReadCloser, error) { opened++; return w.open(r.URI) }})
	write(t, w.root, "a", "same")
	w.scan(t)
	w.mark(t)
	must(t, os.Remove(filepath.Join(w.root, "a")))
	write(t, w.root, "a", "same") // a new inode
	w.scan(t)
	if n := w.blobs(t); n != 0 || opened != 0 {
		t.Errorf("%d kept, %d opened; want none", n, opened)
	}
}

// hashes returns the hashes of text.
func hashes(text string) resourcesync.Hashes {
	h := resourcesync.NewHasher(resourcesync.MD5, resourcesync.SHA256)
	_, _ = io.WriteString(h, text)
	return h.Sum()
}

// apply applies one put of text with a Token.
func (w *world) apply(t tb, name, token, claim string) catalog.Applied {
	t.Helper()
	a, err := w.cat.Apply(context.Background(), set, []catalog.Update{{Record: catalog.Record{
		URI: base + name, Length: int64(len(claim)), Hashes: hashes(claim), Token: token}}})
	must(t, err)
	return a
}

// TestChanged: a file that has changed since it was hashed is recorded with the
// stored bytes.
func TestChanged(t *testing.T) {
	t.Parallel()
	for _, size := range []int{10, 1 << 20} {
		w := newWorld(t, t.TempDir(), nil, nil, bitstream.SetOptions{Past: true})
		w.mark(t)
		now := strings.Repeat("x", size)
		write(t, w.root, "a", now)
		w.apply(t, "a", "token", strings.Repeat("y", size+1))
		cs := w.changes(t)
		if got, kept := w.past(t, &cs[0]); !kept || got != now {
			t.Errorf("size %d: kept %v, %d bytes; want what is there", size, kept, len(got))
		}
		if cs[0].Token != "" || cs[0].Hashes.Get(resourcesync.MD5) == "" {
			t.Errorf("size %d: token %q, hashes %v; want a token that makes a scan look again, and all hashes", size, cs[0].Token, cs[0].Hashes)
		}
	}
}

// TestVanished: a file deleted before it was stored is left to the next scan
// or, if there is none, applied unchanged.
func TestVanished(t *testing.T) {
	t.Parallel()
	for _, rescans := range []bool{true, false} {
		w := newWorld(t, t.TempDir(), nil, nil, bitstream.SetOptions{Past: true, Rescans: rescans})
		w.mark(t)
		a := w.apply(t, "a", "token", "text")
		cs := w.changes(t)
		if rescans && len(cs) != 0 || !rescans && (len(cs) != 1 || a.Created != 1) {
			t.Errorf("rescans %v: applied %+v", rescans, a)
		}
		for _, c := range cs {
			if _, kept := w.past(t, &c); kept {
				t.Error("kept what was never there")
			}
		}
	}
}

// TestVanishedAgain: an update that is offered again unchanged is not left out
// forever.
func TestVanishedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir(), nil, nil, bitstream.SetOptions{Past: true, Rescans: true})
	w.mark(t)
	for i, token := range []string{"1", "2", "2", "2"} {
		a := w.apply(t, "a", token, "text")
		if a.Created != b2i(i == 2) {
			t.Errorf("time %d, token %s: applied %+v", i, token, a)
		}
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestTurns: the record that an update was compared with does not change before
// the update is applied.
func TestTurns(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	w := newWorld(t, t.TempDir(), nil, nil, bitstream.SetOptions{Past: true, Open: func(_ context.Context, r *catalog.Record) (io.ReadCloser, error) {
		if r.URI == base+"slow" {
			close(entered)
			<-release
			return io.NopCloser(strings.NewReader("slow")), nil
		}
		return io.NopCloser(strings.NewReader("two")), nil
	}})
	w.apply(t, "a", "", "one") // before the Mark: not stored
	w.mark(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := w.cat.Apply(context.Background(), set, []catalog.Update{
			{Record: catalog.Record{URI: base + "a", Length: 3, Hashes: hashes("one")}}, // unchanged
			{Record: catalog.Record{URI: base + "slow", Length: 4, Hashes: hashes("slow")}},
		})
		must(t, err)
	})
	<-entered
	time.Sleep(20 * time.Millisecond) // by now the first was compared
	wg.Go(func() { w.apply(t, "a", "", "two") })
	time.Sleep(20 * time.Millisecond) // and the second applied, if it does not wait
	close(release)
	wg.Wait()
	for _, c := range w.changes(t) {
		if _, kept := w.past(t, &c); !kept {
			t.Errorf("change %d, %v of %s, is not kept", c.Seq, c.Change, c.URI)
		}
	}
}

// TestUnsteady: no bytes are invented for a representation that is never the
// same twice.
func TestUnsteady(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 1 << 20} {
		for _, rescans := range []bool{true, false} {
			n := 0
			w := newWorld(t, t.TempDir(), nil, nil, bitstream.SetOptions{Past: true, Rescans: rescans,
				Open: func(context.Context, *catalog.Record) (io.ReadCloser, error) {
					n++
					return io.NopCloser(strings.NewReader(strings.Repeat(string(rune('a'+n)), size))), nil
				}})
			w.mark(t)
			a := w.apply(t, "a", "token", "text")
			cs := w.changes(t)
			if rescans && len(cs) != 0 || !rescans && (len(cs) != 1 || a.Created != 1 || cs[0].Token != "token") {
				t.Errorf("size %d, rescans %v: applied %+v; want it as it was told, or left out", size, rescans, a)
			}
			for _, c := range cs {
				if _, kept := w.past(t, &c); kept {
					t.Error("kept what was never there twice")
				}
			}
			if n := w.blobs(t); n != 0 {
				t.Errorf("%d left in the store", n)
			}
		}
	}
}

// TestUnreadable: a change whose bytes cannot be stored is still recorded.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir(), nil, nil, bitstream.SetOptions{Past: true,
		Open: func(context.Context, *catalog.Record) (io.ReadCloser, error) { return nil, fs.ErrPermission }})
	w.mark(t)
	if a := w.apply(t, "a", "token", "text"); a.Created != 1 {
		t.Errorf("applied %+v, want one created", a)
	}
	cs := w.changes(t)
	if _, kept := w.past(t, &cs[0]); kept {
		t.Error("kept what cannot be read")
	}
}

// TestBatch: several updates of one URI in one Apply.
func TestBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir(), nil, nil, bitstream.SetOptions{Past: true})
	w.mark(t)
	write(t, w.root, "a", "now")
	put := func(text string) catalog.Update {
		h := resourcesync.NewHasher(resourcesync.SHA256)
		_, _ = io.WriteString(h, text)
		return catalog.Update{Record: catalog.Record{URI: base + "a", Length: int64(len(text)), Hashes: h.Sum()}}
	}
	gone := catalog.Update{Record: catalog.Record{URI: base + "a"}, Deleted: true}
	a, err := w.cat.Apply(context.Background(), set, []catalog.Update{put("then"), put("now"), gone, put("now"), gone})
	must(t, err)
	if want := (catalog.Applied{Created: 2, Deleted: 2, Unchanged: 1}); a != want {
		t.Errorf("applied %+v, want %+v", a, want)
	}
	for _, c := range w.changes(t) {
		if got, kept := w.past(t, &c); c.Change == resourcesync.Created && (!kept || got != "now") {
			t.Errorf("change %d: kept %v, %q", c.Seq, kept, got)
		}
	}
}

// TestNoHashes: an intake without hashes, or with other ones, causes no
// spurious changes, though the Keeper adds its own.
func TestNoHashes(t *testing.T) {
	t.Parallel()
	for name, some := range map[string]func(string) resourcesync.Hashes{
		"none": func(string) resourcesync.Hashes { return nil },
		"md5": func(s string) resourcesync.Hashes {
			h := resourcesync.NewHasher(resourcesync.MD5)
			_, _ = io.WriteString(h, s)
			return h.Sum()
		},
	} {
		for _, size := range []int{5, 1 << 20} {
			opened := 0
			var w *world
			w = newWorld(t, t.TempDir(), nil, nil, bitstream.SetOptions{Past: true,
				Open: func(_ context.Context, r *catalog.Record) (io.ReadCloser, error) { opened++; return w.open(r.URI) }})
			w.mark(t)
			text := strings.Repeat("z", size)
			write(t, w.root, "a", text)
			u := catalog.Update{Record: catalog.Record{URI: base + "a", Length: -1, Hashes: some(text), Token: "1"}}
			for i := range 2 {
				u.Token = fmt.Sprint(i)
				before := opened
				a, err := w.cat.Apply(context.Background(), set, []catalog.Update{u})
				must(t, err)
				if a.Unchanged != i || i > 0 && opened > before {
					t.Errorf("%s, size %d: applied %+v, opened %d times, at time %d", name, size, a, opened, i+1)
				}
			}
			cs := w.changes(t)
			if got, kept := w.past(t, &cs[0]); !kept || got != text || cs[0].Token != "0" {
				t.Errorf("%s, size %d: kept %v, %d bytes, token %q", name, size, kept, len(got), cs[0].Token)
			}
		}
	}
}
