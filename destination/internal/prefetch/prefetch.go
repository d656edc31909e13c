// Package prefetch has resources fetched that the first parts of a Resource List name while
// the other parts are still being read.
package prefetch

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/stage"
)

// partMost is how many resources of a document are prefetched: about as many as
// arrive in a second.
const partMost = 4096

// partMemory is how many bytes of entries of a document are held.
const partMemory = 4 << 20

// grace is how long what is under way may take when the list has been read. What is
// interrupted is fetched later, with everything else.
const grace = time.Second

// errEnded is the cause of an interruption at the end of the list.
var errEnded = errors.New("the list has been read")

// A FetchFunc fetches resources of a part of a list, for as long as more returns true.
type FetchFunc func(ctx context.Context, part *stage.Stage, more func() bool) error

// A Fetcher has the resources of one document at a time fetched. A nil Fetcher takes
// none.
type Fetcher struct {
	cancel context.CancelCauseFunc
	stage  func() *stage.Stage
	parts  chan *stage.Stage
	ended  atomic.Bool
	err    error // valid when done is closed
	done   chan struct{}
}

// Start returns a Fetcher that collects resources in stages that newStage returns, and
// has them fetched by fetch, until [Fetcher.End] is called or ctx ends.
func Start(ctx context.Context, newStage func() *stage.Stage, fetch FetchFunc) *Fetcher {
	ctx, cancel := context.WithCancelCause(ctx)
	f := &Fetcher{cancel: cancel, stage: newStage, parts: make(chan *stage.Stage, 1), done: make(chan struct{})}
	go f.run(ctx, fetch)
	return f
}

func (f *Fetcher) run(ctx context.Context, fetch FetchFunc) {
	defer close(f.done)
	more := func() bool { return !f.ended.Load() }
	for part := range f.parts {
		if f.err == nil && more() {
			f.err = fetch(ctx, part, more)
		}
		if err := part.Close(context.WithoutCancel(ctx)); f.err == nil {
			f.err = err
		}
	}
}

// End is called when the list has been read, or cannot be read. It waits for what is
// under way, but not long, and returns the error that ended fetching early.
func (f *Fetcher) End() error {
	if f == nil {
		return nil
	}
	f.ended.Store(true)
	close(f.parts)
	timer := time.AfterFunc(grace, func() { f.cancel(errEnded) })
	<-f.done
	timer.Stop()
	f.cancel(nil)
	if errors.Is(f.err, errEnded) {
		return nil
	}
	return f.err
}

// A Part collects resources of one document. A nil Part takes none.
type Part struct {
	fetcher *Fetcher
	stage   *stage.Stage
	out     *stage.Writer
	count   int
}

// Part returns a Part for a document that is going to be read; nil if others are waiting
// already. It is safe for concurrent use.
func (f *Fetcher) Part() *Part {
	if f == nil || len(f.parts) > 0 {
		return nil
	}
	st := f.stage()
	st.Sorter.Memory = partMemory
	st.AddDocument()
	return &Part{fetcher: f, stage: st, out: st.Writer()}
}

// Add adds a resource that the document lists, unless there are enough.
func (p *Part) Add(w desired.Resource) error {
	if p == nil || p.count == partMost {
		return nil
	}
	p.count++
	w.Rank.Doc = 0
	return p.out.Add(&w)
}

// End is called when the document has been read; only if all of it could be read are
// its resources fetched.
func (p *Part) End(whole bool) error {
	if p == nil {
		return nil
	}
	if whole && p.count > 0 {
		select {
		case p.fetcher.parts <- p.stage:
			return nil
		default:
		}
	}
	p.out.Release()
	return p.stage.Close(context.Background())
}
