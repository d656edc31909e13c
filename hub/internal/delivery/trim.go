package delivery

import (
	"context"
	"log/slog"
	"time"

	"lockstep/hub/hubstore"
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

// A trimmer deletes messages that are no longer needed.
type trimmer struct {
	store    hubstore.Store
	registry *registry
	outcomes *outcomes
	sharing  *Sharing
	keep     time.Duration // how long delivered messages are kept
	forget   time.Duration // messages of this age are deleted even if subscribers lack them
	grain    time.Duration // the precision of ages
	now      func() time.Time
	log      *slog.Logger
}

// run works until ctx ends.
func (x *trimmer) run(ctx context.Context) {
	ticker := time.NewTicker(min(max(x.grain, tidyLeast), tidyMost))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := x.trim(ctx); err != nil && ctx.Err() == nil {
			x.log.Error("old messages could not be forgotten", slog.Any("err", err))
		}
	}
}

func (x *trimmer) trim(ctx context.Context) error {
	x.registry.mu.Lock()
	all := make([]*topic, 0, len(x.registry.topics))
	for _, t := range x.registry.topics {
		if t.first <= t.last {
			all = append(all, t)
		}
	}
	x.registry.mu.Unlock()
	others, err := x.sharing.others(ctx)
	if err != nil {
		return err
	}
	trimmed := false
	for _, t := range all {
		if err := x.walk(ctx, t); err != nil {
			return err
		}
		upto := x.superfluous(t)
		if cursor, ok := others.cursors[t.url]; ok {
			upto = min(upto, cursor)
		}
		if upto < t.first || !others.mine {
			continue
		}
		if err := x.store.Trim(ctx, t.url, upto); err != nil {
			return err
		}
		x.registry.mu.Lock()
		t.first = max(t.first, upto+1)
		t.ages.forget(upto)
		x.registry.mu.Unlock()
		trimmed = true
	}
	if !trimmed && others.mine {
		return nil
	}
	return x.measure(ctx)
}

// walk examines the age of messages from before the start, until it finds one
// that is young enough to be kept.
func (x *trimmer) walk(ctx context.Context, t *topic) error {
	x.registry.mu.Lock()
	a := &t.ages
	after, loaded := max(a.walked, t.first-1), a.loaded
	x.registry.mu.Unlock()
	if after >= loaded {
		return nil
	}
	limit, count, bytes := x.now().Add(-min(x.keep, x.outcomes.retry.patience)), 0, 0
	for m, err := range x.store.Log(ctx, t.url, after) {
		if err != nil {
			return err
		}
		count, bytes = count+1, bytes+len(m.Body)
		if m.Seq > loaded || m.At.After(limit) || count > walkCount || bytes > walkBytes {
			return nil
		}
		x.registry.mu.Lock()
		a.walk(m.At, m.Seq, x.grain)
		x.registry.mu.Unlock()
	}
	return nil
}

// superfluous returns the number up to which the messages of t are no longer
// needed: all subscriptions are past them, as the store knows, and Keep has
// elapsed; or they are older than Forget. 0: none. It also gives up messages
// that have waited too long for a failing endpoint.
func (x *trimmer) superfluous(t *topic) int64 {
	x.registry.mu.Lock()
	defer x.registry.mu.Unlock()
	now := x.now()
	forget, limit := t.ages.before(now.Add(-x.forget)), now.Add(-x.outcomes.retry.patience)
	upto := t.ages.before(now.Add(-x.keep))
	for _, s := range t.subs {
		if s.stage != sending { // else it is skipped when that delivery ends
			x.outcomes.skip(s, forget)
		}
		if s.Progress.Cursor < t.last && s.stage != sending {
			x.outcomes.giveUp(s, s.Progress.Failing, limit)
			x.outcomes.giveUp(s, s.host.since, limit)
		}
		upto = min(upto, s.saved)
	}
	if upto = max(upto, forget); upto < t.first {
		return 0
	}
	return upto
}

// measure asks the store for the size of the stored messages, of which another hub may have deleted some.
func (x *trimmer) measure(ctx context.Context) error {
	for row, err := range x.store.Topics(ctx) {
		if err != nil {
			return err
		}
		x.registry.mu.Lock()
		t := x.registry.topic(row.URL)
		t.first, t.bytes = max(t.first, row.First), row.Bytes
		t.ages.forget(t.first - 1)
		x.registry.mu.Unlock()
	}
	return nil
}
