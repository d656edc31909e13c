package hub

import (
	"context"
	"log/slog"
	"time"
)

const (
	tidyMost  = time.Minute // between two checks for messages that can be deleted
	tidyLeast = 10 * time.Millisecond
	ageShare  = 16 // the precision of ages is this fraction of the retention times
	walkCount = 1000
	walkBytes = 16 << 20
)

// An age records that all messages up to a number were accepted at a time, or
// earlier.
type age struct {
	at   time.Time
	upto int64
}

// ages records how old the messages of a log are, without a record of each:
// those accepted since the hub was started, and older ones that were examined
// since.
type ages struct {
	loaded int64 // the newest message when the hub was started
	walked int64 // the last older message that was examined
	last   age   // of the newest message
	marks  []age
	older  []age // up to walked
}

// add records the age of the message numbered seq.
func (a *ages) add(at time.Time, seq int64, grain time.Duration) {
	a.last = age{at, seq}
	if n := len(a.marks); n == 0 || at.Sub(a.marks[n-1].at) >= grain {
		a.marks = append(a.marks, a.last)
	}
}

// walk records the age of the next message from before the start.
func (a *ages) walk(at time.Time, seq int64, grain time.Duration) {
	a.walked = seq
	if n := len(a.older); n > 1 && at.Sub(a.older[n-2].at) < grain {
		a.older[n-1] = age{at, seq}
		return
	}
	a.older = append(a.older, age{at, seq})
}

// before returns the highest known number up to which all messages were
// accepted at limit or earlier; 0 if there is none.
func (a *ages) before(limit time.Time) int64 {
	if a.last.upto > 0 && !a.last.at.After(limit) {
		return a.last.upto
	}
	for _, marks := range [...][]age{a.marks, a.older} {
		for i := len(marks) - 1; i >= 0; i-- {
			if !marks[i].at.After(limit) {
				return marks[i].upto
			}
		}
	}
	return 0
}

// forget drops the records of messages up to a number.
func (a *ages) forget(upto int64) {
	for len(a.older) > 0 && a.older[0].upto < upto {
		a.older = a.older[1:]
	}
	for len(a.marks) > 1 && a.marks[1].upto <= upto {
		a.marks = a.marks[1:]
	}
}

// grain is the precision of ages.
func (h *Hub) grain() time.Duration { return min(h.opts.Keep, h.opts.RetryFor) / ageShare }

// tidy deletes messages that are no longer needed, until ctx ends.
func (h *Hub) tidy(ctx context.Context) {
	ticker := time.NewTicker(min(max(h.grain(), tidyLeast), tidyMost))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := h.tidyAll(ctx); err != nil && ctx.Err() == nil {
			h.opts.Logger.Error("old messages could not be forgotten", slog.Any("err", err))
		}
	}
}

func (h *Hub) tidyAll(ctx context.Context) error {
	h.mu.Lock()
	all := make([]*topic, 0, len(h.registry.topics))
	for _, t := range h.registry.topics {
		if t.first <= t.last {
			all = append(all, t)
		}
	}
	h.mu.Unlock()
	others, err := h.others(ctx)
	if err != nil {
		return err
	}
	trimmed := false
	for _, t := range all {
		if err := h.walk(ctx, t); err != nil {
			return err
		}
		upto := h.superfluous(t)
		if cursor, ok := others.cursors[t.url]; ok {
			upto = min(upto, cursor)
		}
		if upto < t.first || !others.mine {
			continue
		}
		if err := h.store.Trim(ctx, t.url, upto); err != nil {
			return err
		}
		h.mu.Lock()
		t.first = max(t.first, upto+1)
		t.ages.forget(upto)
		h.mu.Unlock()
		trimmed = true
	}
	if !trimmed {
		return nil
	}
	return h.measure(ctx)
}

// walk examines the age of messages from before the start, until it finds one
// that is young enough to be kept.
func (h *Hub) walk(ctx context.Context, t *topic) error {
	h.mu.Lock()
	a := &t.ages
	after, loaded := max(a.walked, t.first-1), a.loaded
	h.mu.Unlock()
	if after >= loaded {
		return nil
	}
	limit, count, bytes := h.now().Add(-min(h.opts.Keep, h.opts.RetryFor)), 0, 0
	for m, err := range h.store.Log(ctx, t.url, after) {
		if err != nil {
			return err
		}
		count, bytes = count+1, bytes+len(m.Body)
		if m.Seq > loaded || m.At.After(limit) || count > walkCount || bytes > walkBytes {
			return nil
		}
		h.mu.Lock()
		a.walk(m.At, m.Seq, h.grain())
		h.mu.Unlock()
	}
	return nil
}

// superfluous returns the number up to which the messages of t are no longer
// needed: all subscriptions are past them, as the store knows, and Keep has
// elapsed; or they are older than Forget. 0: none. It also gives up messages
// that have waited too long for a failing endpoint.
func (h *Hub) superfluous(t *topic) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	forget, limit := t.ages.before(now.Add(-h.opts.Forget)), now.Add(-h.opts.RetryFor)
	upto := t.ages.before(now.Add(-h.opts.Keep))
	for _, s := range t.subs {
		if s.stage != sending { // else it is skipped when that delivery ends
			h.skip(s, forget)
		}
		if s.Progress.Cursor < t.last && s.stage != sending {
			h.giveUp(s, s.Progress.Failing, limit)
			h.giveUp(s, s.host.since, limit)
		}
		upto = min(upto, s.saved)
	}
	if upto = max(upto, forget); upto < t.first {
		return 0
	}
	return upto
}

// measure asks the store for the size of the stored messages.
func (h *Hub) measure(ctx context.Context) error {
	for row, err := range h.store.Topics(ctx) {
		if err != nil {
			return err
		}
		h.mu.Lock()
		t := h.registry.topic(row.URL)
		t.first, t.bytes = max(t.first, row.First), row.Bytes
		h.mu.Unlock()
	}
	return nil
}
