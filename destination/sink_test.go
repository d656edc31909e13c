package destination_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/blob/faultfs"
	"lockstep/destination"
	"lockstep/destination/journaltest"
	"lockstep/resourcesync"
)

// A bag is a Sink that stores contents by URI, and fails at one batch.
type bag struct {
	t       *testing.T
	has     map[string]string
	at, n   int
	late    bool // it fails when it has taken the batch
	batches [][]string
}

func (b *bag) Apply(_ context.Context, batch []destination.Delivery) error {
	if b.n++; b.n == b.at && !b.late {
		return errBusy
	}
	var uris []string
	for i := range batch {
		d := &batch[i]
		uris = append(uris, d.URI)
		if d.Kind == resourcesync.Deleted {
			delete(b.has, d.URI)
			continue
		}
		if _, held := b.has[d.URI]; held != (d.Kind == resourcesync.Updated) && b.at == 0 {
			b.t.Errorf("%v %s, held: %v", d.Kind, d.URI, held)
		}
		for range 2 { // it can be read again
			data, err := io.ReadAll(d.Open())
			if err != nil || int64(len(data)) != d.Length {
				b.t.Errorf("%s: %d of %d bytes, %v", d.URI, len(data), d.Length, err)
			}
			b.has[d.URI] = string(data)
		}
	}
	if b.batches = append(b.batches, uris); b.n == b.at {
		return errBusy
	}
	return nil
}

func (b *bag) same(s *site) {
	b.t.Helper()
	want := map[string]string{}
	s.mu.Lock()
	for path, f := range s.files {
		want[s.url(path)] = string(f.data)
	}
	s.mu.Unlock()
	if d := cmp.Diff(want, b.has); d != "" {
		b.t.Fatalf("sink: (-want +got)\n%.2000s", d)
	}
}

func newBag(t *testing.T, m *mirror, o destination.SinkOptions) *bag {
	b := &bag{t: t, has: map[string]string{}}
	m.store = destination.NewSinkStore(b, o)
	return b
}

// TestSink keeps a Sink in step; what it has is not fetched again, though there are
// no files to examine.
func TestSink(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	m := newMirror(t, s)
	m.opts.MaxDelete = 100
	b := newBag(t, m, destination.SinkOptions{Memory: 10_000, Dir: t.TempDir()})
	s.put("/large", strings.Repeat("large ", 100_000))
	s.put("/larger", strings.Repeat("larger ", 200_000))
	shortLife(s, func() {
		t.Helper()
		if _, err := m.sync(); err != nil {
			t.Fatal(err)
		}
	})
	b.same(s)
	for _, baseline := range []bool{false, true} {
		n := len(b.batches)
		m.opts.Baseline = baseline
		r, err := m.sync()
		if err != nil || len(b.batches) != n || s.got("/large")+s.got("/d/f1") != 0 {
			t.Fatalf("baseline %v: %v, %d batches, want none\n%+v", baseline, err, len(b.batches)-n, r)
		}
	}
	if files := m.files(); len(files) > 0 {
		t.Fatalf("files: %v", files)
	}
}

// TestSinkConditional has a Source that states too little to recognize changes:
// resources are requested again, but unchanged ones are not delivered.
func TestSinkConditional(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{sitemap: true, noLastmod: true})
	m := newMirror(t, s)
	b := newBag(t, m, destination.SinkOptions{})
	s.put("/a", "a")
	s.put("/b", "b")
	for range 3 {
		m.opts.Baseline = true
		if _, err := m.sync(); err != nil {
			t.Fatal(err)
		}
		s.put("/b", fmt.Sprint(b.n))
	}
	if got := fmt.Sprint(b.batches); got != fmt.Sprintf("[[%s %s] [%[2]s] [%[2]s]]", s.url("/a"), s.url("/b")) &&
		got != fmt.Sprintf("[[%[2]s %[1]s] [%[2]s] [%[2]s]]", s.url("/a"), s.url("/b")) {
		t.Fatal(got)
	}
}

// TestSinkFails lets a sink fail at every batch in turn, deletions included.
func TestSinkFails(t *testing.T) {
	t.Parallel()
	for at := 1; ; at++ {
		s := newSite(t, style{})
		m := newMirror(t, s)
		m.opts.MaxDelete = 100
		b := newBag(t, m, destination.SinkOptions{})
		b.at = at
		failed := 0
		shortLife(s, func() {
			t.Helper()
			_, err := m.sync()
			if err == nil {
				return
			}
			var se *destination.SinkError
			if !errors.As(err, &se) || !errors.Is(err, errBusy) {
				t.Fatalf("batch %d: %v", at, err)
			}
			failed++
			if r, err := m.sync(); err != nil {
				t.Fatalf("batch %d: the run after: %v\n%+v", at, err, r)
			}
		})
		b.same(s)
		s.srv.Close()
		if b.n < at {
			if at < 4 || failed > 0 {
				t.Fatalf("%d batches, %d failed", b.n, failed)
			}
			return
		}
		if failed != 1 {
			t.Fatalf("batch %d: %d runs failed, want one", at, failed)
		}
	}
}

// TestSinkFault lets every write of the Journal fail in turn.
func TestSinkFault(t *testing.T) {
	t.Parallel()
	for at := 1; ; at++ {
		f := &faultfs.Faults{At: at}
		s := newSite(t, style{})
		m := newMirror(t, s)
		m.opts.MaxDelete = 100
		b := newBag(t, m, destination.SinkOptions{})
		b.at = -1 // what is created may come twice
		mem := m.journal
		m.journal = &journaltest.Faulty{Journal: mem, Faults: f}
		shortLife(s, func() { _, _ = m.sync() })
		m.journal = mem
		if r, err := m.sync(); err != nil {
			t.Fatalf("fault %d: next run: %v\n%+v", at, err, r)
		}
		b.same(s)
		s.srv.Close()
		if f.Steps() < f.At {
			return
		}
	}
}

// TestSinkMayHaveTakenADeletion: a Sink has taken a deletion, and that is not recorded, because it failed afterwards
// or the process ended. If the Source has the same content again, the Sink receives it again.
func TestSinkMayHaveTakenADeletion(t *testing.T) {
	t.Parallel()
	for at := 0; ; at++ { // 0: the Sink fails, otherwise a write of the Journal
		f := &faultfs.Faults{At: at}
		s := newSite(t, style{})
		m := newMirror(t, s)
		m.opts.MaxDelete = 100
		b := newBag(t, m, destination.SinkOptions{})
		s.put("/a", "a")
		s.put("/b", "b")
		s.put("/c", "c")
		if _, err := m.sync(); err != nil {
			t.Fatal(err)
		}
		b.at, b.late = -1, true // what is held may come as created
		if at == 0 {
			b.at = b.n + 1
		}
		s.del("/a")
		s.del("/c")
		mem := m.journal
		m.journal = &journaltest.Faulty{Journal: mem, Faults: f}
		if _, err := m.sync(); err == nil && (at == 0 || f.Steps() >= at) {
			t.Errorf("fault %d: no error", at)
		}
		m.journal, b.at = mem, -1
		s.put("/a", "a")
		if r, err := m.sync(); err != nil {
			t.Fatalf("fault %d: next run: %v\n%+v", at, err, r)
		}
		b.same(s)
		s.srv.Close()
		if at > 0 && f.Steps() < at {
			return
		}
	}
}
