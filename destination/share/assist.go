package share

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"lockstep/blob"
	"lockstep/destination/internal/dispatch"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/transfer"
)

const (
	assistEvery = 10 * time.Millisecond  // messages, while there is work
	idleEvery   = 250 * time.Millisecond // otherwise
	commitBy    = 32                     // contents committed at a time
)

// Assist works for the coordinators that m sees, until ctx ends or m may not write any more.
// It fetches with f, by so many requests to one host as a dispatcher may have workers.
func Assist(ctx context.Context, m *Member, f *transfer.Fetcher, jobs int) error {
	for {
		view, changed := m.View()
		if err := m.MayWrite(); err != nil {
			return err
		}
		within, cancel := context.WithCancel(ctx)
		if view.Present {
			a := &assistant{m: m, fetch: f, run: view.Run, requests: f.Client.Requests(), bytes: f.Client.Bytes(), held: map[int64]*fetched{}, fetching: map[int64]bool{}, storing: map[int64]bool{}}
			if err := a.work(within, jobs); err != nil {
				m.pause(ctx, err)
			}
			cancel()
		} else {
			select {
			case <-ctx.Done():
			case <-changed:
			case <-time.After(idleEvery):
			}
			cancel()
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// An assistant works for one coordinator.
type assistant struct {
	m     *Member
	fetch *transfer.Fetcher
	run   int64

	requests, bytes int64 // of the client, at the last report

	mu          sync.Mutex // guards what follows
	held        map[int64]*fetched
	fetching    map[int64]bool // true: it is not wanted any more
	storing     map[int64]bool
	answers     []answer
	commitments []commitment
}

// A fetched is a content that is in hand, with the answer that the coordinator was sent.
type fetched struct {
	blob.Writer
	answer answer
}

// A job is a request with its action.
type job struct {
	n      int64
	action *plan.Action
}

// work works until the coordinator is another one, or m may not write any more. When it
// returns, nothing is under way: a request to store a content that is canceled may still take effect,
// so that those that have begun may take the time of a lease. An error is one of the table.
func (w *assistant) work(ctx context.Context, jobs int) error {
	within, cancel := context.WithCancel(ctx)
	storing, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer w.end()
	var g sync.WaitGroup
	places := make(chan struct{}, commitBy)
	store := func(n int64, bw blob.Writer) {
		g.Go(func() {
			places <- struct{}{} // those that have one end
			if within.Err() == nil {
				w.commit(w.store(storing, n, bw))
			} else {
				_ = bw.Close() // it is fetched again
			}
			<-places
		})
	}
	work := dispatch.New(jobs, func(j *job) error { return w.get(within, j) }, func(j *job, _ error) { w.answer(answer{N: j.n}) })
	defer func() {
		cancel()
		left := w.m.Lease()
		if w.m.MayWrite() != nil {
			left = 0
		}
		late := time.AfterFunc(left, giveUp)
		work.Wait()
		g.Wait()
		late.Stop()
		giveUp()
	}()
	if err := w.m.WorkFor(ctx, w.run); err != nil {
		return err
	}
	var from string // the coordinator
	var last int64  // number of its latest message that was handled: those that come again were sent twice
	var received []Message
	for pause := assistEvery; ; {
		view, _ := w.m.View()
		if view.Run != w.run || !view.Present || w.m.MayWrite() != nil {
			return nil
		}
		ms, err := w.m.receive(ctx, received)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			w.m.pause(ctx, err)
			continue
		}
		received = ms
		for i := range ms {
			if ms[i].Run == w.run && ms[i].Number > last {
				from, last = ms[i].From, ms[i].Number
				if err := w.handle(within, &ms[i], work, store); err != nil {
					w.m.opts.Logger.WarnContext(ctx, "a message is ignored", slog.Any("err", err)) // the coordinator takes its contents for lost
				}
			}
		}
		busy, err := w.report(ctx, from)
		if err != nil {
			return err
		}
		if pause = min(pause*3/2, idleEvery); busy || len(ms) > 0 {
			pause = assistEvery
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// end drops what is in hand.
func (w *assistant) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, bw := range w.held {
		_ = bw.Close() // it is fetched again
	}
	w.held = nil
	w.m.hold(0)
}

func (w *assistant) handle(ctx context.Context, m *Message, work *dispatch.Dispatcher[job], store func(int64, blob.Writer)) error {
	switch m.Kind {
	case ToFetch:
		var rs []request
		if err := decode(m, &rs); err != nil {
			return err
		}
		for i := range rs {
			a, err := rs[i].action()
			if err != nil {
				w.answer(answer{N: rs[i].N}) // the coordinator does it
				continue
			}
			switch f, isNew := w.begin(rs[i].N); {
			case f != nil:
				w.answer(f.answer) // once more: it was lost
			case isNew:
				work.Put(ctx, a.URI, &job{rs[i].N, a}, false)
			}
		}
	case ToCommit, ToDrop:
		var ns []int64
		if err := decode(m, &ns); err != nil {
			return err
		}
		for _, n := range ns {
			bw, storing := w.take(n, m.Kind == ToDrop)
			switch {
			case storing: // it is said again
			case bw == nil && m.Kind == ToCommit:
				w.commit(commitment{N: n, Err: "it is not here"})
			case bw == nil:
			case m.Kind == ToDrop:
				_ = bw.Close() // it is not wanted
			default:
				store(n, bw)
			}
		}
	case Fetched, Committed: // only others say that
	}
	return nil
}

// begin notes that a content is fetched, unless that has begun, or it is in hand.
func (w *assistant) begin(n int64) (f *fetched, isNew bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, begun := w.fetching[n]
	if f = w.held[n]; f == nil && !begun && !w.storing[n] {
		w.fetching[n], isNew = false, true
	}
	return f, isNew
}

// take returns the content with a number, which is in hand no more; nil: there is none, or it is
// being stored.
func (w *assistant) take(n int64, drop bool) (bw blob.Writer, storing bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.held[n]; f != nil {
		bw = f.Writer
	} else if _, ok := w.fetching[n]; ok {
		w.fetching[n] = drop
	}
	storing = w.storing[n]
	if delete(w.held, n); bw != nil && !drop {
		w.storing[n] = true
	}
	return bw, storing
}

// get fetches a content.
func (w *assistant) get(ctx context.Context, j *job) error {
	o := w.fetch.Do(ctx, j.action)
	if o.Err == nil {
		w.fetch.Names.Release(j.action.Place)
	}
	a := answerOf(j.n, &o)
	if !a.OK || o.Unchanged {
		if o.Writer != nil {
			_ = o.Writer.Close() // the coordinator fetches it again
		}
		if o.Err != nil {
			w.m.opts.Logger.DebugContext(ctx, "left to the coordinator", slog.String("err", o.Err.Error()))
		}
		w.answer(a)
		return o.Err
	}
	w.mu.Lock()
	dropped := w.fetching[j.n] || w.held == nil
	if !dropped {
		w.held[j.n] = &fetched{o.Writer, a}
	}
	w.mu.Unlock()
	if dropped {
		_ = o.Writer.Close() // it is not wanted
	}
	w.answer(a)
	return nil
}

// store commits a content.
func (w *assistant) store(ctx context.Context, n int64, bw blob.Writer) commitment {
	c := commitment{N: n}
	if err := w.fetch.Store.Commit(ctx, bw); err != nil {
		_ = bw.Close() // the coordinator fetches it again
		c.Err = err.Error()
		return c
	}
	w.m.committed()
	if v, ok := bw.(blob.Versioned); ok {
		c.Tag = v.Version()
	}
	return c
}

func (w *assistant) answer(a answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.fetching, a.N)
	w.answers = append(w.answers, a)
}

func (w *assistant) commit(c commitment) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.storing, c.N)
	w.commitments = append(w.commitments, c)
}

// report sends the coordinator what has come about, and reports whether there is more to come.
func (w *assistant) report(ctx context.Context, to string) (busy bool, err error) {
	w.mu.Lock()
	list, commitments := w.answers, w.commitments
	w.answers, w.commitments = nil, nil
	open := len(w.fetching) + len(w.storing) + len(w.held)
	w.mu.Unlock()
	w.m.hold(open)
	var ms []Message
	if len(list) > 0 {
		requests, bytes := w.fetch.Client.Requests(), w.fetch.Client.Bytes()
		body := answers{Answers: list, Requests: requests - w.requests, Bytes: bytes - w.bytes}
		w.requests, w.bytes = requests, bytes
		ms = append(ms, w.m.message(to, w.run, Fetched, encode(body)))
	}
	if len(commitments) > 0 {
		ms = append(ms, w.m.message(to, w.run, Committed, encode(commitments)))
	}
	for {
		err := w.m.send(ctx, ms)
		if err == nil || ctx.Err() != nil || w.m.MayWrite() != nil {
			return open > 0 || len(ms) > 0, nil
		}
		w.m.pause(ctx, err)
	}
}
