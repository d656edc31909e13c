package destination_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/blob"
	"lockstep/blob/faultfs"
	"lockstep/destination"
	"lockstep/destination/journaltest"
	"lockstep/resourcesync"
)

// A replica is the state that results from the delivered changes.
type replica map[string]string // digests by URI

func (r replica) apply(c destination.Change) {
	if c.Kind == resourcesync.Deleted {
		delete(r, c.URI)
		return
	}
	r[c.URI] = c.Hashes.Get(resourcesync.SHA256)
}

// of returns the replica of a site.
func replicaOf(s *site) replica {
	r := replica{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, f := range s.files {
		h := resourcesync.NewHasher(resourcesync.SHA256)
		_, _ = h.Write(f.data)
		r[s.url(path)] = h.Sum().Get(resourcesync.SHA256)
	}
	return r
}

func (r replica) same(t *testing.T, s *site) {
	t.Helper()
	if d := cmp.Diff(replicaOf(s), r); d != "" {
		t.Fatalf("replica: (-want +got)\n%.2000s", d)
	}
}

var errBusy = errors.New("busy")

// TestDeliver lets delivery fail at every batch in turn. The run stops there, and the
// next one begins with the changes that were not taken.
func TestDeliver(t *testing.T) {
	t.Parallel()
	for at := 1; ; at++ {
		s := newSite(t, style{})
		m := newMirror(t, s)
		m.opts.MaxDelete = 100
		got, n := replica{}, 0
		m.opts.Deliver = func(_ context.Context, batch []destination.Change) error {
			if n++; n == at {
				return errBusy
			}
			for _, c := range batch {
				got.apply(c)
			}
			return nil
		}
		failed := 0
		run := func() {
			t.Helper()
			_, err := m.sync()
			var de *destination.DeliveryError
			switch {
			case err == nil:
				return
			case !errors.As(err, &de) || !errors.Is(err, errBusy):
				t.Fatalf("batch %d: %v", at, err)
			}
			failed++
			if r, err := m.sync(); err != nil {
				t.Fatalf("batch %d: the run after: %v\n%+v", at, err, r)
			}
		}
		shortLife(s, run)
		got.same(t, s)
		m.same()
		s.srv.Close()
		if n < at {
			if failed > 0 {
				t.Fatalf("%d runs failed of themselves", failed)
			}
			return
		}
		if failed != 1 {
			t.Fatalf("batch %d: %d runs failed, want one", at, failed)
		}
	}
}

// shortLife changes a site a few times, and calls run now and then.
func shortLife(s *site, run func()) {
	for i := range 6 {
		s.put(fmt.Sprintf("/d/f%d", i), fmt.Sprint("one ", i))
	}
	run()
	s.put("/d/f0", "two")
	s.put("/new/f", "new")
	s.del("/d/f2")
	s.del("/d/f3")
	s.put("/d/f3/below", "a directory now")
	run()
}

// TestDeliverFault lets every write fail in turn. The delivered changes, and the
// reported events, both add up to the state of the Source.
func TestDeliverFault(t *testing.T) {
	t.Parallel()
	for at := range faultPlaces() {
		f := &faultfs.Faults{At: at}
		s := newSite(t, style{})
		m := newMirror(t, s)
		dir, err := blob.NewDir(m.dir, blob.DirOptions{})
		if err != nil {
			t.Fatal(err)
		}
		m.opts.MaxDelete, m.opts.Jobs = 100, 2
		got, reported := replica{}, replica{}
		m.opts.Deliver = func(_ context.Context, batch []destination.Change) error {
			for _, c := range batch {
				got.apply(c)
			}
			return nil
		}
		plain, mem := m.store, m.journal
		m.store, m.journal = &faultfs.Dir{Dir: dir, Faults: f}, &journaltest.Faulty{Journal: mem, Faults: f}
		run := func() (err error) {
			_, err = m.sync()
			for _, e := range m.events {
				if e.Kind == destination.EventApplied {
					reported.apply(destination.Change{URI: e.URI, Kind: e.Change, Hashes: e.Hashes})
				}
			}
			return err
		}
		shortLife(s, func() { _ = run() })
		m.store, m.journal = plain, mem
		if err := run(); err != nil {
			t.Fatalf("fault %d: next run: %v", at, err)
		}
		got.same(t, s)
		reported.same(t, s)
		_ = dir.Close()
		s.srv.Close()
		if f.Steps() < f.At {
			t.Logf("%d writes", at-1)
			return
		}
	}
}

// TestChanges takes one change in every loop and breaks off at the next: that one is
// delivered again, and none is delivered twice.
func TestChanges(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	for i := range 5 {
		s.put(fmt.Sprintf("/d/f%d", i), fmt.Sprint("one ", i))
	}
	m := newMirror(t, s)
	got, taken, runs := replica{}, 0, 0
	for over := false; !over; runs++ {
		over = true
		var r destination.Report
		n := 0
		for c, err := range m.destination().Changes(t.Context(), m.address(), &r) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n == 2 {
				over = false
				break // c is not done with
			}
			got.apply(c)
			taken++
		}
		if over && (r.Failed > 0 || r.Mode == "") || runs > 10 {
			t.Fatalf("run %d: %+v", runs, r)
		}
	}
	got.same(t, s)
	if taken != 5 || runs != 5 {
		t.Fatalf("%d changes were taken in %d runs, want each once, one in every run", taken, runs)
	}
}

// TestChangesEnd ends loops in other ways: by an error of the run, by the
// context, by a panic.
func TestChangesEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	for i := range 5 {
		s.put(fmt.Sprintf("/d/f%d", i), fmt.Sprint("one ", i))
	}
	m := newMirror(t, s)
	func() {
		defer func() {
			if p := recover(); p != "mine" {
				t.Errorf("recovered %v", p)
			}
		}()
		for range m.destination().Changes(t.Context(), m.address(), nil) {
			panic("mine")
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	var errs []error
	for _, err := range m.destination().Changes(ctx, m.address(), nil) {
		cancel()
		if err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 1 || len(errs) == 1 && !errors.Is(errs[0], context.Canceled) {
		t.Fatal(errs)
	}
	cancel()
	s.srv.Close()
	errs = nil
	for _, err := range m.destination().Changes(t.Context(), m.address(), nil) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) != 1 {
		t.Fatalf("without a Source: %v", errs)
	}
}

// TestChangeJSON reads back what --events writes.
func TestChangeJSON(t *testing.T) {
	t.Parallel()
	at := time.Date(2024, 5, 1, 2, 3, 4, 567, time.UTC)
	h := resourcesync.NewHasher(resourcesync.SHA256, resourcesync.MD5)
	want := []destination.Change{
		{Set: "main", URI: "http://x.org/<a>", Kind: resourcesync.Updated, Path: "a \xff", Type: "text/plain", Hashes: h.Sum(), Lastmod: at, Datetime: at},
		{URI: "http://x.org/b", Kind: resourcesync.Deleted, Path: "b"},
	}
	want[0].Path = "a ü" // JSON has no other bytes
	for _, c := range want {
		b, err := json.Marshal(c)
		var got destination.Change
		if err == nil {
			err = json.Unmarshal(b, &got)
		}
		slices.SortFunc(got.Hashes, func(a, b resourcesync.Hash) int { return int(a.Algorithm) - int(b.Algorithm) })
		slices.SortFunc(c.Hashes, func(a, b resourcesync.Hash) int { return int(a.Algorithm) - int(b.Algorithm) })
		if d := cmp.Diff(c, got); err != nil || d != "" {
			t.Errorf("%s: %v (-want +got)\n%s", b, err, d)
		}
	}
}

// FuzzChange reads any line as a change; what was read is written and read back
// the same.
func FuzzChange(f *testing.F) {
	f.Add(`{"event":"applied","set":"main","uri":"http://x.org/a","change":"updated","path":"a","length":3,"type":"text/plain","hash":"md5:900150983cd24fb0d6963f7d28e17f72","datetime":"2024-05-01T02:03:04.5Z"}`)
	f.Add(`{"change":"deleted","uri":"http://x.org/b"}`)
	f.Add(`{"length":null,"hash":"sha-256:zz crc:1 md5:"}`)
	f.Fuzz(func(t *testing.T, line string) {
		var c, again destination.Change
		if json.Unmarshal([]byte(line), &c) != nil {
			return
		}
		b, err := json.Marshal(c)
		if err == nil {
			err = json.Unmarshal(b, &again)
		}
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if c.Kind == resourcesync.Deleted {
			c.Length = 0 // a deletion has none
		}
		if d := cmp.Diff(c, again); d != "" {
			t.Fatalf("%s: (-read +again)\n%s", b, d)
		}
	})
}
