package aggregator

import (
	"context"
	"errors"
	"sync"
	"testing"

	"lockstep/catalog"
	"lockstep/intake"
)

// A fullSet is a Catalog that cannot write to a set.
type fullSet struct {
	catalog.Catalog
	set string
}

func (f *fullSet) Apply(ctx context.Context, set string, updates []catalog.Update) (catalog.Applied, error) {
	if set == f.set {
		return catalog.Applied{}, errors.New("no space left on device")
	}
	return f.Catalog.Apply(ctx, set, updates)
}

// TestNoneSettlesWhileAnotherFails: of several goroutines that publish what has waited for an
// upstream, none reports success if it could not be written.
func TestNoneSettlesWhileAnotherFails(t *testing.T) {
	t.Parallel()
	mem := catalog.NewMem(nil)
	if _, err := mem.Apply(t.Context(), "list#b", []catalog.Update{{Record: catalog.Record{URI: "http://x.example/a", Token: "b http://y.example/a"}}}); err != nil {
		t.Fatal(err)
	}
	over := &firstRun{over: make(chan struct{})}
	close(over.over)
	for range 2000 {
		a := &member{name: "a", set: "list#a", everywhere: true, first: over, waitedFor: true}
		b := &member{name: "b", set: "list#b", everywhere: true, first: over}
		m := &merger{Catalog: &fullSet{mem, "list"}, set: "list", events: &intake.Reporter{}, members: []*member{a, b}}
		var work sync.WaitGroup
		for range 4 {
			work.Go(func() {
				if m.settleFirst(t.Context(), a, nil) == nil {
					t.Error("settled, but nothing was written")
				}
			})
		}
		if work.Wait(); t.Failed() {
			return
		}
	}
}
