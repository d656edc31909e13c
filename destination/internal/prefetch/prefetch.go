// Package prefetch has resources fetched that a Resource List names while the rest of it
// is still being read.
package prefetch

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/stage"
)

// partMost is how many resources of a document are prefetched together: about as many as
// arrive in a second. The first ones are fewer, so that they begin to arrive soon.
const (
	partFirst = 256
	partMost  = 4096
)

// partMemory is how many bytes of entries of a document are held.
const partMemory = 4 << 20

// grace is how long what is under way may take when the list has been read. What is
// interrupted is fetched later, with everything else.
const grace = time.Second

// errEnded is the cause of an interruption at the end of the list.
var errEnded = errors.New("the list has been read")

// A FetchFunc fetches resources of a part of a list, for as long as more returns true.
type FetchFunc func(ctx context.Context, part *stage.Stage, more func() bool) error

// A Fetcher has resources of one document at a time fetched. A nil Fetcher takes
// none.
type Fetcher struct {
	cancel context.CancelCauseFunc
	stage  func() *stage.Stage
	parts  chan *stage.Stage
	begun  atomic.Bool // the first ones were handed over
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
	stage   *stage.Stage // nil: what was collected has been handed over
	out     *stage.Writer
	count   int
}

// Part returns a Part for a document that is going to be read. It is safe for concurrent
// use.
func (f *Fetcher) Part() *Part {
	if f == nil {
		return nil
	}
	return &Part{fetcher: f}
}

// Add adds a resource that the document lists, unless others are waiting already.
func (p *Part) Add(w *desired.Resource) error {
	if p == nil || p.stage == nil && !p.begin() {
		return nil
	}
	doc := w.Rank.Doc
	w.Rank.Doc = 0
	err := p.out.Add(w)
	if w.Rank.Doc = doc; err != nil {
		return err
	}
	if p.count++; p.count < partMost && (p.count < partFirst || p.fetcher.begun.Swap(true)) {
		return nil
	}
	return p.handOver()
}

// begin begins to collect, unless others are waiting.
func (p *Part) begin() bool {
	if len(p.fetcher.parts) > 0 {
		return false
	}
	st := p.fetcher.stage()
	st.Sorter.Memory = partMemory
	st.AddDocument()
	p.stage, p.out, p.count = st, st.Writer(), 0
	return true
}

// handOver has what was collected fetched, unless others are waiting.
func (p *Part) handOver() error {
	st := p.stage
	p.stage = nil
	p.out.Release()
	select {
	case p.fetcher.parts <- st:
		return nil
	default:
		return st.Close(context.Background())
	}
}

// End is called when nothing is added any more. More says that other documents are still
// being read: otherwise what was collected need not be fetched now.
func (p *Part) End(more bool) error {
	if p == nil || p.stage == nil {
		return nil
	}
	if more {
		return p.handOver()
	}
	p.out.Release()
	return p.stage.Close(context.Background())
}
