package destination_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"lockstep/destination"
	"lockstep/resourcesync"
)

// A register is a Sink that takes descriptions only.
type register struct {
	t   *testing.T
	has map[string]destination.Change // by URI
	n   int                           // changes
}

func (r *register) Apply(_ context.Context, batch []destination.Delivery) error {
	for i := range batch {
		r.n++
		if c := &batch[i].Change; c.Kind != resourcesync.Deleted {
			r.t.Errorf("%v %s was delivered with content", c.Kind, c.URI)
		}
		delete(r.has, batch[i].URI)
	}
	return nil
}

func (r *register) Describe(_ context.Context, batch []destination.Change) error {
	for _, c := range batch {
		r.n++
		if _, held := r.has[c.URI]; held != (c.Kind == resourcesync.Updated) {
			r.t.Errorf("%v %s, held: %v", c.Kind, c.URI, held)
		}
		r.has[c.URI] = c
	}
	return nil
}

// TestDescriptionsOnly: where no content is wanted none is requested, whatever the Source
// states and offers; changes and deletions are delivered, what is unchanged is not, and a
// mass deletion is refused.
func TestDescriptionsOnly(t *testing.T) {
	t.Parallel()
	for _, st := range []style{{}, {noHash: true}, {noHash: true, noLength: true}, {noLastmod: true}, {noChanges: true}, {noChanges: true, noHash: true}} {
		t.Run(fmt.Sprintf("%+v", st), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, st)
			m := newMirror(t, s)
			r := &register{t: t, has: map[string]destination.Change{}}
			m.store = destination.NewSinkStore(r, destination.SinkOptions{Dir: t.TempDir(), DescriptionsOnly: true})
			m.opts.Via = destination.ViaList
			for i := range 10 {
				s.put(fmt.Sprintf("/f%d", i), fmt.Sprint("content ", i))
			}
			sync := func(want int, refused bool) {
				t.Helper()
				r.n = 0
				report, err := m.sync()
				if errors.Is(err, destination.ErrRefused) != refused || err != nil && !refused {
					t.Fatalf("error = %v", err)
				}
				if r.n != want {
					t.Errorf("%d changes were delivered, want %d; %s", r.n, want, counts(report))
				}
				if n := s.resourceGets() - s.got("/"); n != 0 { // where the documents are looked for
					t.Errorf("%d requests for resources", n)
				}
			}
			sync(10, false)
			s.put("/f1", "other content")
			s.put("/new", "new")
			s.del("/f2")
			sync(3, false)
			if c := r.has[s.url("/f1")]; !st.noLength && c.Length != int64(len("other content")) || !st.noHash && len(c.Hashes) == 0 {
				t.Errorf("delivered %+v", c)
			}
			for _, baseline := range []bool{false, true} {
				m.opts.Baseline = baseline
				sync(0, false)
			}
			m.opts.Baseline = false
			for i := 3; i < 10; i++ {
				s.del(fmt.Sprintf("/f%d", i))
			}
			sync(0, true)
			if len(r.has) != 10 {
				t.Errorf("%d resources remain", len(r.has))
			}
		})
	}
}
