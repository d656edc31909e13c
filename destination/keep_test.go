package destination_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/blob"
	"lockstep/blob/faultfs"
	"lockstep/destination"
	"lockstep/destination/filename"
	"lockstep/destination/journaltest"
)

// A keeping is a mirror that keeps versions, and the past states it must restore.
type keeping struct {
	*mirror
	clock func() time.Time
}

// versionsOf is where the mirrors of these tests keep versions.
func versionsOf(dir string) string { return filepath.Join(dir, ".lockstep", "versions") }

func newKeeping(t testing.TB, s *site, keep destination.Keep) *keeping {
	m := newMirror(t, s)
	versions, err := blob.NewDir(filepath.Join(m.dir, ".lockstep", "versions"), blob.DirOptions{Tmp: "tmp"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { versions.Close() })
	m.opts.Keep, m.opts.Versions, m.opts.MaxDelete = keep, versions, 100
	return &keeping{mirror: m, clock: time.Now}
}

// run syncs and returns the time and the state of the mirror after it.
func (k *keeping) run() (time.Time, map[string]string) {
	k.t.Helper()
	r, err := k.at()
	if err != nil || r.NotKept > 0 {
		k.t.Fatalf("Sync: %v\n%+v", err, r)
	}
	k.same()
	return k.clock(), k.resources()
}

// resources returns what the mirror holds, by the paths of the URIs.
func (k *keeping) resources() map[string]string {
	paths, err := filename.New(filename.Options{Origin: k.site.srv.URL})
	if err != nil {
		k.t.Fatal(err)
	}
	held := map[string]string{}
	for path, data := range k.files() {
		uri, err := paths.URI(path)
		if err != nil {
			k.t.Fatal(err)
		}
		held[strings.TrimPrefix(uri, k.site.srv.URL+"/")] = data
	}
	return held
}

func (k *keeping) at() (destination.Report, error) {
	d := k.destination()
	d.SetClock(k.clock)
	return d.Sync(context.Background(), k.address())
}

// past returns the state of the mirror at an instant, as resources does, and the
// resources whose state is unknown.
func (k *keeping) past(at time.Time) (files map[string]string, unknown []string, err error) {
	k.t.Helper()
	olds, _, err := k.destination().Past(context.Background(), at, 1)
	files = map[string]string{}
	for _, o := range olds {
		path := strings.TrimPrefix(o.URI, k.site.srv.URL+"/")
		switch {
		case !o.Known:
			unknown = append(unknown, path)
		case o.Err != nil:
			k.t.Errorf("as of %s: %s: %v", at, o.URI, o.Err)
		default:
			files[path] = o.Content
		}
	}
	return files, unknown, err
}

// was checks a past state of the mirror.
func (k *keeping) was(at time.Time, want map[string]string) {
	k.t.Helper()
	got, unknown, err := k.past(at)
	if err != nil || len(unknown) > 0 {
		k.t.Fatalf("as of %s: %v, unknown %v", at, err, unknown)
	}
	if d := cmp.Diff(want, got); d != "" {
		k.t.Fatalf("as of %s: (-want +got)\n%.2000s", at, d)
	}
}

// TestKeep restores what was replaced, removed, and not yet there.
func TestKeep(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	k := newKeeping(t, s, destination.Keep{All: true})
	s.put("/a", "one")
	s.put("/gone", "soon")
	before := time.Now()
	t1, was1 := k.run()
	s.put("/a", "two")
	s.put("/new", "n")
	s.del("/gone")
	k.opts.Keep = destination.Keep{} // the recorded policy still applies
	t2, was2 := k.run()
	s.put("/a", strings.Repeat("three", 100_000))
	s.put("/gone", "again")
	t3, was3 := k.run()
	s.put("/a", strings.Repeat("three", 99_999)+"four")
	t4, was4 := k.run()
	for i := range 2 {
		k.was(t1, was1)
		k.was(t2, was2)
		k.was(t3, was3)
		k.was(t4, was4)
		k.was(t4.Add(time.Hour), was4)
		if i == 0 {
			if a := k.audit(); !a.InSync || a.Foreign > 0 {
				t.Fatalf("audit: %+v", a)
			}
			k.run() // nothing changes
		}
	}
	if _, _, err := k.past(before); !errors.Is(err, destination.ErrNoPast) {
		t.Errorf("before all: %v, want %v", err, destination.ErrNoPast)
	}
	r, err := k.at()
	if err != nil || r.Kept == nil || r.Kept.Versions != 4 || r.Kept.Bytes != 3+4+3+500_000 || !r.Kept.Since.After(before) || r.NotKept != 0 {
		t.Errorf("report %+v, %v: want 4 versions of 500,010 bytes", r.Kept, err)
	}
}

// TestKeepLater lets a mirror keep versions from some run on: its state then is the
// first that can be restored. Later it discards them.
func TestKeepLater(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	k := newKeeping(t, s, destination.Keep{})
	s.put("/a", "one")
	t0, was := k.run()
	k.opts.Keep = destination.Keep{All: true}
	s.put("/a", "two")
	time.Sleep(time.Millisecond)
	d := k.destination()
	between := time.Now() // the policy is set by the run that replaces a
	if _, err := d.Sync(t.Context(), k.address()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := k.past(t0); !errors.Is(err, destination.ErrNoPast) {
		t.Errorf("before versions were kept: %v, want %v", err, destination.ErrNoPast)
	}
	_, since, err := k.destination().Past(t.Context(), between, 1)
	if !errors.Is(err, destination.ErrNoPast) || since.Before(between) {
		t.Errorf("since %s, %v; want after %s", since, err, between)
	}
	k.was(since, was)
	k.opts.Keep = destination.Keep{None: true}
	r, err := k.at()
	if err != nil || r.Kept != nil {
		t.Fatalf("to forget: %v, %+v", err, r.Kept)
	}
	if _, _, err := k.past(time.Now()); !errors.Is(err, destination.ErrNoPast) {
		t.Errorf("when all is forgotten: %v, want %v", err, destination.ErrNoPast)
	}
	if n := k.kept(); n != 0 {
		t.Errorf("%d bytes are there still", n)
	}
	k.opts.Keep = destination.Keep{}
	s.put("/a", "three")
	if k.run(); k.kept() != 0 {
		t.Error("it keeps versions still")
	}
}

// kept returns how many bytes of contents the versions take.
func (k *keeping) kept() (n int64) {
	for info, err := range k.opts.Versions.List(context.Background(), "") {
		if err != nil {
			k.t.Fatal(err)
		}
		n += info.Size
	}
	return n
}

// TestKeepDamaged changes and removes files behind our back: no version of them can
// be kept, which is reported and does no other harm.
func TestKeepDamaged(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	k := newKeeping(t, s, destination.Keep{All: true})
	for _, name := range []string{"/changed", "/gone", "/same", "/good", "/deleted"} {
		s.put(name, "one "+name)
	}
	t1, was := k.run()
	for _, err := range []error{
		os.WriteFile(filepath.Join(k.dir, "changed"), []byte("ONE"), 0o666),
		os.Remove(filepath.Join(k.dir, "gone")),
		os.Remove(filepath.Join(k.dir, "deleted")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"/changed", "/gone", "/good"} {
		s.put(name, "two")
	}
	s.del("/deleted")
	r, err := k.at()
	if err != nil || r.NotKept != 3 {
		t.Fatalf("%d not kept, want 3: %v\n%q", r.NotKept, err, r.Warnings)
	}
	k.same()
	olds, _, err := k.destination().Past(t.Context(), t1, 1)
	if err != nil || len(olds) != 5 {
		t.Fatalf("%d resources, %v; want 5", len(olds), err)
	}
	for _, o := range olds {
		path := strings.TrimPrefix(o.URI, s.srv.URL+"/")
		if kept := path == "good" || path == "same"; kept && (o.Err != nil || o.Content != was[path]) || !kept && !errors.Is(o.Err, fs.ErrNotExist) {
			t.Errorf("%s: %q, %v", path, o.Content, o.Err)
		}
	}
}

// TestKeepFlipped flips a bit of a stored version: it is never returned.
func TestKeepFlipped(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	k := newKeeping(t, s, destination.Keep{All: true})
	text := strings.Repeat("the bytes of a version ", 1000)
	s.put("/a", text)
	t1, _ := k.run()
	s.put("/a", "two")
	k.run()
	k.flip(0.5)
	olds, _, err := k.destination().Past(t.Context(), t1, 1)
	if err != nil || len(olds) != 1 || olds[0].Err == nil || errors.Is(olds[0].Err, fs.ErrNotExist) {
		t.Fatalf("%v, %+v: want the damage to be reported", err, olds)
	}
	if !strings.HasPrefix(text, olds[0].Content) {
		t.Errorf("bytes that are wrong were handed out")
	}
	t.Log(olds[0].Err)
}

// TestKeepDamagedBefore keeps further versions of a resource of which one stored
// version is damaged: later versions do not depend on it.
func TestKeepDamagedBefore(t *testing.T) {
	t.Parallel()
	for _, share := range []float64{0, 0.3, 0.5, 0.9, 1} {
		keepBeyondDamage(t, share)
	}
}

func keepBeyondDamage(t *testing.T, share float64) {
	t.Helper()
	s := newSite(t, style{})
	k := newKeeping(t, s, destination.Keep{All: true})
	rnd := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, 1<<20)
	for i := range text {
		text[i] = byte(rnd.Uint32())
	}
	put := func() {
		copy(text[rnd.IntN(len(text)-10):], "unlike it")
		s.put("/a", string(text))
	}
	put()
	t1, was1 := k.run()
	put()
	k.run()
	put()
	t3, was3 := k.run()
	k.flip(share)
	put()
	k.run()
	put()
	t5, was5 := k.run()
	put()
	k.run()
	k.was(t5, was5)
	for at, was := range map[time.Time]string{t1: was1["a"], t3: was3["a"]} {
		olds, _, err := k.destination().Past(t.Context(), at, 1)
		if err != nil || len(olds) != 1 || olds[0].Err == nil && olds[0].Content != was {
			t.Errorf("with a bit flipped at %v of each: %v, of %d resources the first is wrong", share, err, len(olds))
		}
	}
}

// flip damages all that is kept, at a share of its length.
func (k *keeping) flip(share float64) {
	k.t.Helper()
	for info, err := range k.opts.Versions.List(context.Background(), "") {
		if err != nil {
			k.t.Fatal(err)
		}
		path := filepath.Join(versionsOf(k.dir), filepath.FromSlash(info.Name))
		b, err := os.ReadFile(path)
		if err != nil {
			k.t.Fatal(err)
		}
		if len(b) > 0 {
			b[int(share*float64(len(b)-1))] ^= 4
		}
		writeFile(k.t, path, string(b))
	}
}

// TestKeepFull leaves no space for versions: nothing is replaced or removed that
// could not be kept.
func TestKeepFull(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	k := newKeeping(t, s, destination.Keep{All: true})
	s.put("/a", "one")
	s.put("/b", "one")
	t1, was := k.run()
	room := k.opts.Versions
	k.opts.Versions = &faultfs.Store{Store: room, Faults: &faultfs.Faults{At: 1, Err: syscall.ENOSPC}}
	s.put("/a", "two")
	s.put("/c", "new")
	s.del("/b")
	r, err := k.at()
	if !errors.Is(err, destination.ErrIncomplete) || r.Failed != 2 || r.Created != 1 {
		t.Fatalf("%v, %+v: want two failures", err, r)
	}
	if got := k.files(); got["a"] != "one" || got["b"] != "one" || got["c"] != "new" {
		t.Errorf("files: %v", got)
	}
	k.opts.Versions = room
	t2, was2 := k.run()
	k.was(t1, was)
	k.was(t2, was2)
}

// TestKeepFault lets every write fail in turn, of files, versions and Journal,
// permanently or once: the next run continues, and every past state can be restored.
func TestKeepFault(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		faults *faultfs.Faults
		keep   destination.Keep
		each   int // of the writes, from a random one on
	}{
		{"kill", &faultfs.Faults{Mode: faultfs.Killed}, destination.Keep{All: true}, 2},
		{"power cut", &faultfs.Faults{Mode: faultfs.PowerCut}, destination.Keep{All: true}, 2},
		{"full disk", &faultfs.Faults{Err: syscall.ENOSPC}, destination.Keep{All: true}, 4},
		{"one write", &faultfs.Faults{Err: syscall.EIO, Count: 1}, destination.Keep{All: true}, 3},
		{"power cut while some are dropped", &faultfs.Faults{Mode: faultfs.PowerCut}, destination.Keep{Count: 1}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			each := max(tt.each, *faultStep)
			for at := 1 + rand.IntN(each); ; at += each {
				if keepFaultAt(t, &faultfs.Faults{At: at, Err: tt.faults.Err, Count: tt.faults.Count, Mode: tt.faults.Mode}, tt.keep) {
					t.Logf("%d writes", at-1)
					return
				}
			}
		})
	}
}

func keepFaultAt(t *testing.T, f *faultfs.Faults, keep destination.Keep) (done bool) {
	t.Helper()
	s := newSite(t, style{})
	defer s.srv.Close()
	k := newKeeping(t, s, keep)
	k.opts.Jobs, k.opts.Versions = 2, &blob.Mem{}
	dir, err := blob.NewDir(k.dir, blob.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for i := range 4 {
		s.put(fmt.Sprintf("/d/f%d", i), fmt.Sprint("one ", i))
	}
	t1, was1 := k.run()
	s.put("/d/f0", "two")
	t2, was2 := k.run()

	plain, mem, versions := k.store, k.journal, k.opts.Versions
	k.store, k.journal, k.opts.Versions = &faultfs.Dir{Dir: dir, Faults: f}, &journaltest.Faulty{Journal: mem, Faults: f}, &faultfs.Store{Store: versions, Faults: f}
	s.put("/d/f0", "three")
	s.put("/d/f1", "three, and longer")
	s.put("/new/f", "new")
	s.del("/d/f2")
	s.del("/d/f3")
	s.put("/d/f3/below", "a directory now")
	_, err = k.at()
	if f.Steps() < f.At {
		if err != nil {
			t.Fatalf("without a fault: %v", err)
		}
		done = true
	}
	open, jerr := mem.Load(t.Context(), "running")
	broken, left := time.Now(), k.resources()
	ended := !errors.Is(err, destination.ErrIncomplete) && err != nil && open == nil && jerr == nil && !cmp.Equal(left, was2) // but for saying when
	k.store, k.journal, k.opts.Versions = plain, mem, versions
	s.put("/d/f1", "four")
	var now []time.Time
	k.clock = func() time.Time {
		now = append(now, time.Now())
		return now[len(now)-1]
	}
	t3, was3 := k.run()
	check := func(at time.Time, want map[string]string) {
		t.Helper()
		got, unknown, err := k.past(at)
		if err != nil {
			t.Fatalf("fault %d: as of %s: %v", f.At, at, err)
		}
		want = maps.Clone(want)
		for _, path := range unknown {
			if keep.All {
				t.Fatalf("fault %d: the state of %s is unknown", f.At, path)
			}
			delete(want, path)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("fault %d: as of %s: (-want +got)\n%s", f.At, at, d)
		}
	}
	check(t1, was1)
	check(t2, was2)
	check(t3, was3)
	if ended { // perhaps the next run said so when it began
		if got, _, err := k.past(broken); err != nil || !cmp.Equal(got, left) {
			check(now[0], left)
		}
	}
	if a := k.audit(); !a.InSync || a.Foreign > 0 {
		t.Fatalf("fault %d: %+v", f.At, a)
	}
	return done
}
