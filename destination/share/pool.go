package share

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/blob"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/transfer"
	"lockstep/resourcesync"
)

const unknown = resourcesync.UnknownChange

// How much another process has in hand.
const (
	mostAsked = 128       // resources that it fetches, of each set
	mostOpen  = 1024      // contents, with those that wait for their commit
	mostBytes = 256 << 20 // of them, as far as lengths are stated
	batchMost = 64        // resources that are asked for at a time
)

const (
	receiveEvery = 10 * time.Millisecond
	retryEvery   = 250 * time.Millisecond // after an error of the table

	// silentLeases is for how many leases a request may be without an answer: the table may have
	// lost one of them, as a standby may that takes over. Then it is repeated; or given up, if
	// the process says that it has nothing in hand.
	silentLeases = 2
)

// A Pool is the coordinator's view of the other processes: it has them fetch contents, and
// commit them.
type Pool struct {
	member *Member
	table  Table
	run    int64
	log    *slog.Logger

	fetched         atomic.Int64 // contents that others fetched and committed
	requests, bytes atomic.Int64 // of others

	mu      sync.Mutex // guards what follows
	next    int64
	joined  int // workers so far
	items   map[int64]*item
	workers map[string]*worker
	out     []Message            // to be sent
	visible map[blob.Writer]bool // contents of this process that a Commit that failed has committed
	checked time.Time            // whether requests are to be repeated
	wake    chan struct{}
}

// A worker is another process.
type worker struct {
	name  string
	open  int // items
	bytes int64
	heard time.Time // it answered, or had something in hand
	last  int64     // number of its latest message that was handled: those that come again were sent twice
}

// An item is a content that another process has, or is to have.
type item struct {
	n       int64
	worker  string
	session *Session
	action  *plan.Action
	path    string
	said    time.Time  // when the latest request was
	asked   bool       // and not answered
	commit  chan error // has the result; nil: not requested
	tag     string     // once it is visible
	visible bool
	gone    bool // with its process
}

// NewPool returns the Pool of a coordinator, which is this process, and has the token run.
func NewPool(m *Member, run int64) *Pool {
	return &Pool{member: m, table: m.table, run: run, log: m.opts.Logger, items: map[int64]*item{}, workers: map[string]*worker{}, visible: map[blob.Writer]bool{}, wake: make(chan struct{}, 1)}
}

// Fetched returns how many contents other processes have fetched.
func (p *Pool) Fetched() int64 { return p.fetched.Load() }

// Workers returns how many other processes have taken part so far.
func (p *Pool) Workers() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.joined
}

// Traffic returns how many requests other processes have sent, and how many bytes they received.
func (p *Pool) Traffic() (requests, bytes int64) { return p.requests.Load(), p.bytes.Load() }

// Begin waits until no process works for an earlier coordinator any more: none of them will
// commit anything for it. Before that nothing may be concluded from what is in the store.
func (p *Pool) Begin(ctx context.Context) error {
	if err := p.member.WorkFor(ctx, p.run); err != nil {
		return err
	}
	for waiting := false; ; waiting = true {
		view, _ := p.member.View()
		if view.Run != p.run {
			return ErrExpired // its successor waits for this process
		}
		busy := ""
		for _, o := range view.Alive {
			if o.ID != p.member.id && o.Run != p.run {
				busy = o.Name
			}
		}
		if busy == "" {
			return p.table.Clear(ctx, p.run)
		}
		if !waiting {
			p.log.InfoContext(ctx, "waiting for a process that works for the last coordinator", slog.String("process", busy))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
		if err := p.member.Look(ctx); err != nil {
			return err
		}
	}
}

// Run sends and receives messages until ctx ends.
func (p *Pool) Run(ctx context.Context) {
	var g sync.WaitGroup
	g.Go(func() { p.send(ctx) })
	g.Go(func() { p.receive(ctx) })
	g.Wait()
}

func (p *Pool) send(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		}
		p.mu.Lock()
		out := p.out
		p.out = nil
		p.mu.Unlock()
		for ctx.Err() == nil {
			err := p.member.send(ctx, out)
			if err == nil {
				break
			}
			p.member.pause(ctx, err)
		}
	}
}

// say sends a message to a worker. The caller holds mu.
func (p *Pool) say(to string, kind Kind, v any) {
	p.out = append(p.out, p.member.message(to, p.run, kind, encode(v)))
	select {
	case p.wake <- struct{}{}:
	default: // it is awake
	}
}

func (p *Pool) receive(ctx context.Context) {
	var received []Message
	idle := time.NewTicker(receiveEvery)
	defer idle.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-idle.C:
		}
		p.look()
		p.mu.Lock()
		quiet := len(p.items) == 0 && len(received) == 0
		p.mu.Unlock()
		if quiet {
			continue
		}
		ms, err := p.member.receive(ctx, received)
		if err != nil {
			p.member.pause(ctx, err)
			continue
		}
		received = ms
		for i := range ms {
			if ms[i].Run != p.run {
				continue
			}
			if err := p.handle(&ms[i]); err != nil {
				p.log.WarnContext(ctx, "a message is ignored", slog.Any("err", err)) // its contents are taken for lost when their process says it has none
			}
		}
	}
}

// look notes which processes are there, and gives up what those have that are not.
func (p *Pool) look() {
	view, _ := p.member.View()
	p.mu.Lock()
	defer p.mu.Unlock()
	there := map[string]bool{}
	ready := true
	for _, o := range view.Alive {
		ready = ready && o.Divisor >= len(view.Alive) // it has made room for the others
	}
	for _, o := range view.Alive {
		if o.ID == p.member.id || o.Run != p.run {
			continue
		}
		w := p.workers[o.ID]
		if w == nil && ready {
			w = &worker{name: o.Name, heard: time.Now()}
			p.workers[o.ID] = w
			p.joined++
			p.log.Info("another process takes part", slog.String("process", o.Name))
		}
		if w == nil {
			continue
		}
		there[o.ID] = true
		if o.Open > 0 || w.open == 0 {
			w.heard = time.Now()
		}
		if time.Since(w.heard) > p.silent() {
			p.lose(o.ID, "has lost its work")
			w.heard = time.Now()
		}
	}
	for id, w := range p.workers {
		if !there[id] {
			p.lose(id, "has ended")
			delete(p.workers, id)
			w.open = 0
		}
	}
	if time.Since(p.checked) > p.silent()/4 {
		p.checked = time.Now()
		p.repeat()
	}
}

// silent returns how long a request may be without an answer.
func (p *Pool) silent() time.Duration { return silentLeases * p.member.opts.Lease }

// repeat repeats requests without an answer. The caller holds mu.
func (p *Pool) repeat() {
	for _, it := range p.items {
		if time.Since(it.said) < p.silent() {
			continue
		}
		switch it.said = p.checked; {
		case it.commit != nil:
			p.say(it.worker, ToCommit, []int64{it.n})
		case it.asked:
			p.say(it.worker, ToFetch, []request{requestOf(it.n, it.action, it.path)})
		}
	}
}

// lose gives up what a process has. The caller holds mu.
func (p *Pool) lose(id, why string) {
	w := p.workers[id]
	p.log.Info("another process "+why, slog.String("process", w.name), slog.Int("contents", w.open))
	for _, it := range p.items {
		if it.worker == id {
			p.give(it, errGone)
		}
	}
}

// errGone is the error of content that its process cannot commit: it is fetched again.
var errGone = &content.LocalError{Err: transfer.ErrGone}

// give ends an item that has failed. The caller holds mu.
func (p *Pool) give(it *item, err error) {
	p.forget(it)
	it.gone = true
	if it.asked {
		it.asked = false
		it.session.answered(it, nil)
	}
	if it.commit != nil {
		it.commit <- err // has room
		it.commit = nil
	}
}

// forget removes an item. The caller holds mu.
func (p *Pool) forget(it *item) {
	if p.items[it.n] != it {
		return
	}
	delete(p.items, it.n)
	if w := p.workers[it.worker]; w != nil {
		w.open--
		w.bytes -= max(it.action.Length, 0)
	}
}

// handle handles the message of another process.
func (p *Pool) handle(m *Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.workers[m.From]; w != nil {
		w.heard = time.Now()
		if m.Number <= w.last {
			return nil
		}
		w.last = m.Number
	}
	switch m.Kind {
	case Fetched:
		var body answers
		if err := decode(m, &body); err != nil {
			return err
		}
		p.requests.Add(body.Requests)
		p.bytes.Add(body.Bytes)
		as := body.Answers
		for i := range as {
			it := p.items[as[i].N]
			if it == nil || it.worker != m.From || !it.asked {
				continue // it was given up, or is said again
			}
			it.asked = false
			if !as[i].OK || as[i].Unchanged {
				p.forget(it)
			}
			it.session.answered(it, &as[i])
		}
	case Committed:
		var cs []commitment
		if err := decode(m, &cs); err != nil {
			return err
		}
		for _, c := range cs {
			it := p.items[c.N]
			if it == nil || it.worker != m.From || it.commit == nil {
				continue
			}
			if c.Err != "" {
				p.log.Info("another process cannot commit", slog.String("path", it.path), slog.String("err", c.Err))
				p.give(it, errGone)
				continue
			}
			it.visible, it.tag = true, c.Tag
			p.forget(it)
			p.fetched.Add(1)
			it.commit <- nil
			it.commit = nil
		}
	case ToFetch, ToCommit, ToDrop: // only a coordinator says that
	}
	return nil
}

// A writer stands for content that another process has.
type writer struct {
	p  *Pool
	it *item
}

var errElsewhere = errors.New("the content is in another process")

func (w *writer) Write([]byte) (int, error) { return 0, errElsewhere }
func (w *writer) Name() string              { return w.it.path }
func (w *writer) SetModTime(time.Time)      {} // the other process has
// Version implements [blob.Versioned].
func (w *writer) Version() string { return w.it.tag }

// Close drops the content.
func (w *writer) Close() error {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	if w.p.items[w.it.n] == w.it {
		w.p.say(w.it.worker, ToDrop, []int64{w.it.n})
		w.p.forget(w.it)
		w.it.gone = true
	}
	return nil
}

// Commit is the Commit of a store of which other processes have some of the contents; own
// commits those of this process. One Commit runs at a time, and one that has failed is
// repeated with the Writers that remain, or followed by none.
func (p *Pool) Commit(ctx context.Context, ws []blob.Writer, own func(context.Context, ...blob.Writer) error) error {
	errs, waits := make([]error, len(ws)), make([]chan error, len(ws))
	var mine []blob.Writer
	var places []int // of mine in ws
	p.mu.Lock()
	by := map[string][]int64{}
	for i, bw := range ws {
		w, ok := bw.(*writer)
		switch {
		case !ok && p.visible[bw]: // a Commit that failed has committed it
		case !ok:
			mine, places = append(mine, bw), append(places, i)
		case w.it.visible:
		case w.it.gone:
			p.log.DebugContext(ctx, "content is gone", slog.String("path", w.it.path))
			errs[i] = errGone
		default:
			waits[i] = make(chan error, 1)
			w.it.commit, w.it.said = waits[i], time.Now()
			by[w.it.worker] = append(by[w.it.worker], w.it.n)
		}
	}
	for id, ns := range by {
		p.say(id, ToCommit, ns)
	}
	p.mu.Unlock()
	var failed error
	var ce *blob.CommitError // of this process
	done := len(mine)
	if done > 0 {
		err := own(ctx, mine...)
		switch {
		case err == nil:
		case errors.As(err, &ce) && ce.Done < len(mine):
			done, errs[places[ce.Done]] = ce.Done, ce.Err
		default:
			failed = err
		}
	}
	for i, wait := range waits {
		if wait == nil {
			continue
		}
		select {
		case errs[i] = <-wait:
		case <-ctx.Done():
			return fmt.Errorf("commit in other processes: %w", context.Cause(ctx))
		}
	}
	if failed != nil {
		return failed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, bw := range mine[:done] {
		p.visible[bw] = true
	}
	for i, err := range errs {
		if err != nil {
			name := ws[i].Name()
			if ce != nil && i == places[ce.Done] { // it may be another one that failed
				name = ce.Name
			}
			return &blob.CommitError{Done: i, Name: name, Err: err}
		}
	}
	clear(p.visible)
	return nil
}
