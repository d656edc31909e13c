package share

import (
	"cmp"
	"context"
	"slices"
	"sort"
	"sync"
	"time"
)

// Mem is a [Table] in memory, for tests. The zero value is empty and ready to use.
type Mem struct {
	mu        sync.Mutex // guards what follows
	run       int64
	present   bool
	processes map[string]memProcess
	messages  []Message
}

type memProcess struct {
	Process
	seen, until time.Time
}

// Coordinate records that there is another coordinator, or none any more.
func (t *Mem) Coordinate(run int64, present bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.run, t.present = run, present
}

// Renew implements [Table].
func (t *Mem) Renew(ctx context.Context, p Process, lease time.Duration) (View, error) {
	if err := ctx.Err(); err != nil {
		return View{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.processes == nil {
		t.processes = map[string]memProcess{}
	}
	now := time.Now()
	until := now.Add(lease)
	if before := t.processes[p.ID].until; before.After(until) {
		until = before
	}
	t.processes[p.ID] = memProcess{p, now, until}
	v := View{Run: t.run, Present: t.present}
	for id, other := range t.processes {
		if !now.Before(other.until) {
			delete(t.processes, id)
			continue
		}
		other.Pauses = since(other.Pauses, now.Sub(other.seen))
		v.Alive = append(v.Alive, other.Process)
	}
	sort.SliceStable(v.Alive, func(i, j int) bool { return v.Alive[i].ID < v.Alive[j].ID })
	return v, nil
}

// since returns the pauses that are left after a time.
func since(pauses map[string]time.Duration, d time.Duration) map[string]time.Duration {
	left := map[string]time.Duration{}
	for host, p := range pauses {
		if p > d {
			left[host] = p - d
		}
	}
	return left
}

// Leave implements [Table].
func (t *Mem) Leave(ctx context.Context, id string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.processes, id)
	return ctx.Err()
}

// Send implements [Table].
func (t *Mem) Send(ctx context.Context, ms []Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range ms {
		if !slices.ContainsFunc(t.messages, ms[i].is) {
			t.messages = append(t.messages, ms[i])
		}
	}
	return nil
}

// is reports whether o is the same message.
func (m *Message) is(o Message) bool {
	return m.To == o.To && m.From == o.From && m.Number == o.Number
}

// Receive implements [Table].
func (t *Mem) Receive(ctx context.Context, to string, received []Message) (ms []Message, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.messages = slices.DeleteFunc(t.messages, func(m Message) bool { return slices.ContainsFunc(received, m.is) })
	for _, m := range t.messages {
		if m.To == to {
			ms = append(ms, m)
		}
	}
	slices.SortFunc(ms, func(a, b Message) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Number, b.Number))
	})
	return ms, nil
}

// Clear implements [Table].
func (t *Mem) Clear(ctx context.Context, run int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.messages = slices.DeleteFunc(t.messages, func(m Message) bool { return m.Run < run })
	return ctx.Err()
}
