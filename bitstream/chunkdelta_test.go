package bitstream_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/bitstream"
	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/patch"
	"lockstep/resourcesync"
)

// random returns incompressible bytes.
func random(seed byte, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b) // never fails
	return b
}

// bytesStored returns the total size of the blobs in the store.
func (w *world) bytesStored(t tb) (n int64) {
	t.Helper()
	for info, err := range w.store.List(context.Background(), "") {
		must(t, err)
		n += info.Size
	}
	return n
}

// chunkDeltas returns the patches of all changes, by name, and checks each.
func (w *world) chunkDeltas(t tb, versions map[string][]string) map[string]string {
	t.Helper()
	got, at := make(map[string]string), make(map[string]int)
	for _, c := range w.changes(t) {
		name := strings.TrimPrefix(c.URI, base)
		for _, l := range c.Links {
			if l.Type != patch.TypeChunkDelta && l.Type != patch.TypeDelta {
				continue
			}
			w.checkPatch(t, l, versions[name][at[name]], versions[name][at[name]+1])
			got[name] += " " + strings.TrimPrefix(l.Type, "application/vnd.lockstep.")
		}
		if at[name]++; len(c.Links) == 0 {
			got[name] += " -"
		}
	}
	return got
}

// TestPatchesOfLargeResources: above WholeBytes patches are made from the indexes of
// resources, and their bytes are not stored for it.
func TestPatchesOfLargeResources(t *testing.T) {
	t.Parallel()
	one, two, three := string(random(1, 1<<20)), string(random(2, 1<<20)), string(random(3, 1<<20))
	versions := map[string][]string{
		"edited.txt":   {one, string(edit([]byte(one), 1)), string(edit([]byte(one), 3)), one},
		"grows.txt":    {one[:250<<10], one[:400<<10], one, one[:300<<10]},
		"shrinks.txt":  {two, two[:300<<10], two[:200<<10], two[:250<<10]},
		"vanishes.txt": {two, two[:100<<10], two, two[:80<<10]},
		"huge.txt":     {one + two + three, one + two, one + two + three, one},
		"other.txt":    {one, two, three, one},
	}
	want := map[string]string{
		"edited.txt": " chunkdelta chunkdelta chunkdelta", "grows.txt": " chunkdelta - chunkdelta",
		"shrinks.txt": " chunkdelta chunkdelta dcz", "vanishes.txt": " chunkdelta - chunkdelta",
		"huge.txt": " - - -", "other.txt": " - - -",
	}
	for _, past := range []bool{false, true} {
		w := newWorld(t, t.TempDir(), nil, nil, bitstream.SetOptions{Past: past, Patches: &bitstream.PatchOptions{WholeBytes: 256 << 10, MaxBytes: 2500 << 10}})
		for i := range 4 {
			for name, texts := range versions {
				write(t, w.root, name, texts[i])
			}
			w.scan(t)
			if i == 0 {
				w.mark(t)
			}
			w.sweep(t)
		}
		got := w.chunkDeltas(t, versions)
		for name := range want {
			if got[name] != want[name] {
				t.Errorf("past %v, %s: patches%s, want%s", past, name, got[name], want[name])
			}
		}
		// edited, grows and other are large now, shrinks and vanishes are not, huge is.
		if n := w.bytesStored(t); !past && n > 400<<10 {
			t.Errorf("%d bytes are stored, want indexes of four resources of 1 MiB or less, and two small ones", n)
		}
		must(t, os.Remove(filepath.Join(w.root, "edited.txt")))
		before := w.blobs(t)
		w.scan(t)
		w.sweep(t)
		if n := before - w.blobs(t); n != 0 {
			t.Errorf("past %v: %d blobs were removed with one of three resources with the same content", past, n)
		}
		for name := range versions {
			_ = os.Remove(filepath.Join(w.root, name)) // one is removed already
		}
		w.dir.Close()
		w.removeAll(t, versions)
		w.sweep(t)
		if n := w.blobs(t); !past && n != 0 {
			t.Errorf("%d blobs are left of deleted resources, want none", n)
		}
	}
}

// removeAll deletes all resources.
func (w *world) removeAll(t tb, versions map[string][]string) {
	t.Helper()
	var gone []catalog.Update
	for name := range versions {
		gone = append(gone, catalog.Update{Record: catalog.Record{URI: base + name}, Deleted: true})
	}
	_, err := w.cat.Apply(context.Background(), set, gone)
	must(t, err)
}

// TestDamagedIndexMakesNoPatch: if an index is damaged or missing, the change is
// recorded without a patch, and the next one has a patch again.
func TestDamagedIndexMakesNoPatch(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*world, string){
		"damaged": func(w *world, name string) {
			out, err := w.store.Create(context.Background(), name)
			must(t, err)
			_, err = out.Write([]byte("lschunk1 and nothing else"))
			must(t, err)
			must(t, w.store.Commit(context.Background(), out))
		},
		"missing": func(w *world, name string) { must(t, w.store.Remove(context.Background(), name)) },
	} {
		w := newWorld(t, t.TempDir(), nil, nil, bitstream.SetOptions{Patches: &bitstream.PatchOptions{WholeBytes: 256 << 10}})
		text := random(4, 600<<10)
		versions := map[string][]string{"a": {string(text), string(edit(text, 1)), string(edit(text, 2))}}
		for i, text := range versions["a"] {
			write(t, w.root, "a", text)
			w.scan(t)
			if i == 0 {
				w.mark(t)
				for info, err := range w.store.List(context.Background(), "") {
					must(t, err)
					spoil(w, info.Name)
				}
			}
		}
		if got := w.chunkDeltas(t, versions)["a"]; got != " - chunkdelta" {
			t.Errorf("%s: patches%s, want none and then one", name, got)
		}
	}
}

// TestLargePatchNotPublished: a change is recorded even if its patch cannot be
// published, or its index cannot be stored.
func TestLargePatchNotPublished(t *testing.T) {
	t.Parallel()
	failed := errors.New("disk full")
	for name, store := range map[string]blob.Store{"patch": new(blob.Mem), "index": &full{Store: new(blob.Mem), create: true}} {
		w := newWorld(t, t.TempDir(), nil, store, bitstream.SetOptions{Patches: &bitstream.PatchOptions{WholeBytes: 256 << 10,
			Put: func(context.Context, string, []byte) (string, error) { return "", failed }}})
		text := random(5, 600<<10)
		write(t, w.root, "a", string(text))
		w.scan(t)
		w.mark(t)
		write(t, w.root, "a", string(edit(text, 1)))
		w.scan(t)
		if cs := w.changes(t); len(cs) != 1 || len(cs[0].Links) != 0 {
			t.Errorf("%s: changes %v, want one without links", name, cs)
		}
	}
}

// TestLargePatchFromKeptVersion: without an index, one is made from the version that
// is kept anyway. No patch is published for other bytes than the change has.
func TestLargePatchFromKeptVersion(t *testing.T) {
	t.Parallel()
	var puts patches
	p := newPast(t, func(p *past) {
		p.opts.Patches = &bitstream.PatchOptions{WholeBytes: 256 << 10, Put: puts.put}
	})
	text := random(6, 600<<10)
	p.mark()
	p.apply(p.put("a", string(text), time.Time{}))
	p.restart() // with an empty store of indexes
	p.apply(p.put("a", string(edit(text, 1)), time.Time{}))
	p.apply(p.put("a", string(edit(text, 2)), time.Time{}))
	links := 0
	for c, err := range p.inner.Changes(context.Background(), set, 0) {
		must(t, err)
		for _, l := range c.Links {
			if l.Rel != resourcesync.RelPatch {
				continue
			}
			links++
			got, err := patch.Apply(l.Type, edited(text, links-1), puts.all[l.Href], 1<<20)
			if err != nil || !bytes.Equal(got, edit(text, links)) {
				t.Errorf("patch %d of type %s: %d bytes, %v", links, l.Type, len(got), err)
			}
		}
	}
	if links != 2 {
		t.Errorf("%d patches, want 2", links)
	}
}

// edited returns text with n insertions, or text itself.
func edited(text []byte, n int) []byte {
	if n == 0 {
		return slices.Clone(text)
	}
	return edit(text, n)
}
