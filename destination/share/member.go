package share

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"lockstep/internal/fetch"
	"lockstep/internal/leasetime"
)

// ErrExpired reports that a process has not renewed its lease in time: the others take it
// for dead, and it must not write to the store any more.
var ErrExpired = errors.New("this process has lost its part of the shared mirror: it was not able to renew its lease")

// Options configures a [Member]. The zero value is ready to use.
type Options struct {
	Name   string        // for people
	Lease  time.Duration // after which a process that is dead is noticed, longer where the table answers slowly; default 8 s
	Logger *slog.Logger  // default: discards
}

const (
	defaultLease = 8 * time.Second
	renewEvery   = 500 * time.Millisecond // also the time in which limits are divided again
	warnEvery    = 10 * time.Second       // outages that follow each other more closely are one
)

// A Member is this process among those that share a mirror.
type Member struct {
	table  Table
	client *fetch.Client
	id     string
	opts   Options

	mu      sync.Mutex // guards what follows
	until   time.Time  // monotonic clock: end of the lease
	lease   time.Duration
	run     int64 // for which it works
	divisor int
	open    int
	view    View
	numbers int64
	stored  int64
	failing bool          // the table could not be used, and not since
	warned  time.Time     // when that was last reported
	changed chan struct{} // closed when view changes
}

// Join makes this process one of those that share the mirror of a table. The limits of client
// become those of all of them together.
func Join(ctx context.Context, t Table, client *fetch.Client, o Options) (*Member, error) {
	o.Lease = cmp.Or(o.Lease, defaultLease)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	m := &Member{table: t, client: client, id: rand.Text(), opts: o, divisor: 1, changed: make(chan struct{}), lease: o.Lease}
	for range 2 { // the first answer may have needed a connection
		began, lease := time.Now(), m.lease
		m.until = began.Add(lease)
		if err := m.renew(ctx); err != nil {
			return nil, fmt.Errorf("join the processes that share the mirror: %w", err)
		}
		if time.Since(began) < leasetime.Pause(lease) {
			break
		}
	}
	return m, nil
}

// ID returns what the others call this process.
func (m *Member) ID() string { return m.id }

// Lease returns after which time the others notice at present that this process is dead.
func (m *Member) Lease() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lease
}

// Keep renews the lease until ctx ends, or it could not be renewed in time: then the error
// is [ErrExpired].
func (m *Member) Keep(ctx context.Context) error {
	tick := time.NewTicker(min(renewEvery, m.opts.Lease/8))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := m.MayWrite(); err != nil {
			return err
		}
		m.mu.Lock()
		left := min(time.Until(m.until), leasetime.Limit(m.opts.Lease, m.lease))
		m.mu.Unlock()
		within, cancel := context.WithTimeout(ctx, max(left, time.Millisecond))
		err := m.renew(within)
		cancel()
		if err != nil {
			m.fails(ctx, err)
		}
	}
}

// fails reports an error of the table, unless it is one of an outage that was reported.
func (m *Member) fails(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	m.mu.Lock()
	first := !m.failing && time.Since(m.warned) > warnEvery
	m.failing = true
	if first {
		m.warned = time.Now()
	}
	left := time.Until(m.until)
	m.mu.Unlock()
	if first {
		m.opts.Logger.WarnContext(ctx, "processes of the shared mirror cannot communicate", slog.Any("err", err), slog.Duration("left", left))
	}
}

// pause waits after an error of the table.
func (m *Member) pause(ctx context.Context, err error) {
	m.fails(ctx, err)
	select {
	case <-ctx.Done():
	case <-time.After(retryEvery):
	}
}

// MayWrite returns why this process must not write to the store any more, or nil.
func (m *Member) MayWrite() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !time.Now().Before(m.until) {
		return ErrExpired
	}
	return nil
}

// Leave has the others not wait for the end of the lease.
func (m *Member) Leave(ctx context.Context) error {
	m.mu.Lock()
	m.until = time.Time{}
	m.mu.Unlock()
	return m.table.Leave(ctx, m.id)
}

// View returns what this process sees of the others, and a channel that is closed when that
// changes.
func (m *Member) View() (View, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.view, m.changed
}

// Look renews the lease and what this process sees of the others.
func (m *Member) Look(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, m.Lease()) // like send
	defer cancel()
	return m.renew(within)
}

// Run returns the token of the coordinator for which this process works.
func (m *Member) Run() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.run
}

// WorkFor records the token of the coordinator for which this process works: everything
// for earlier ones has ended.
func (m *Member) WorkFor(ctx context.Context, run int64) error {
	m.mu.Lock()
	m.run = run
	m.mu.Unlock()
	return m.Look(ctx)
}

// Committed returns how many contents this process has fetched and committed for others.
func (m *Member) Committed() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stored
}

func (m *Member) committed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stored++
}

// hold records how many contents this process has in hand.
func (m *Member) hold(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open = n
}

// message returns the next message of this process.
func (m *Member) message(to string, run int64, kind Kind, body []byte) Message {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.numbers++
	return Message{To: to, From: m.id, Number: m.numbers, Run: run, Kind: kind, Body: body}
}

// send sends messages. It waits for the answer as long as others do for a process that is dead: its
// connection may have broken.
func (m *Member) send(ctx context.Context, ms []Message) error {
	within, cancel := context.WithTimeout(ctx, m.Lease())
	err := m.table.Send(within, ms)
	cancel()
	return err
}

// receive returns the messages to this process, as [Table.Receive] does, and waits like send.
func (m *Member) receive(ctx context.Context, received []Message) ([]Message, error) {
	within, cancel := context.WithTimeout(ctx, m.Lease())
	ms, err := m.table.Receive(within, m.id, received)
	cancel()
	return ms, err
}

// renew renews the lease and divides the limits. The lease is measured from before the table
// was asked, so that it ends here before it ends there.
func (m *Member) renew(ctx context.Context) error {
	pauses := map[string]time.Duration{}
	for host, until := range fetch.Pauses(m.client) {
		pauses[host] = time.Until(until)
	}
	m.mu.Lock()
	p := Process{ID: m.id, Name: m.opts.Name, Run: m.run, Divisor: m.divisor, Open: m.open, Pauses: pauses}
	lease := m.lease
	m.mu.Unlock()
	sent := time.Now()
	view, err := m.table.Renew(ctx, p, lease)
	if err != nil {
		return err
	}
	answer := time.Since(sent)
	for _, other := range view.Alive {
		if other.ID == m.id {
			continue
		}
		for host, left := range other.Pauses {
			fetch.Pause(m.client, host, sent.Add(left))
		}
	}
	n := max(len(view.Alive), 1)
	fetch.Divide(m.client, n)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lease = leasetime.Stretched(m.opts.Lease, answer)
	if until := sent.Add(lease); time.Now().Before(m.until) && until.After(m.until) {
		m.until = until // a lease that has ended stays so, whatever the table says
	}
	m.failing = false
	again := m.divisor != n
	m.divisor = n
	if !sameView(&m.view, &view) {
		close(m.changed)
		m.changed = make(chan struct{})
	}
	m.view = view
	if again { // the others wait for it
		m.mu.Unlock()
		defer m.mu.Lock()
		return m.renew(ctx)
	}
	return nil
}

func sameView(a, b *View) bool {
	if a.Run != b.Run || a.Present != b.Present || len(a.Alive) != len(b.Alive) {
		return false
	}
	for i := range a.Alive {
		p, q := &a.Alive[i], &b.Alive[i]
		if p.ID != q.ID || p.Run != q.Run || p.Divisor != q.Divisor || p.Open != q.Open || !maps.Equal(p.Pauses, q.Pauses) {
			return false
		}
	}
	return true
}
