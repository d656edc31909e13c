package delivery

import (
	"context"
	"log/slog"
	"slices"
)

// A store has lost messages if a standby of its server took over before it had the last transactions. It
// uses the numbers of the lost messages again. Whatever is known of them in memory is dropped, and the positions of
// subscriptions go back, so that the messages which have those numbers now are delivered.

// lookBack is how many messages before the end of a log are compared with those in memory then. If none of
// them is known, they are delivered again.
const lookBack = 256

// isLost reports whether messages of t are missing in the store, where the newest one has the number last,
// as an operation found that began at a step. What others have found since then may be newer. The
// caller holds the lock of the registry.
func (t *topic) isLost(last, step int64) bool { return last < t.last && t.since < step }

// rewind makes upto the number of the newest message of t. The subscriptions continue after the last
// message up to there that the store has not replaced. The caller holds the lock of the
// registry, which is released while the store is read.
func (x *appender) rewind(ctx context.Context, t *topic, upto int64) error {
	epoch, known := t.epoch, t.known(upto-lookBack)
	x.registry.mu.Unlock()
	common, err := x.common(ctx, t.url, upto, known)
	x.registry.mu.Lock()
	if err != nil || t.epoch != epoch { // another goroutine has found that, too
		return err
	}
	x.cut(t, common, upto)
	return nil
}

// known returns the messages above after that are in memory, in no order. A page counts only if it was read before
// the store was asked for the newest message: it is from before the loss then. A later one may contain what has
// the numbers of lost messages, of which subscribers have got others.
func (t *topic) known(after int64) (known []*entry) {
	add := func(e *entry) {
		if e.Seq > after {
			known = append(known, e)
		}
	}
	for i := range t.recent.entries.len() {
		add(t.recent.entries.at(i))
	}
	for _, p := range t.pages {
		if p.step >= t.found {
			continue
		}
		for _, e := range p.entries {
			add(e)
		}
	}
	return known
}

// common returns the number of the last message up to upto that is stored and is one of those known.
func (x *appender) common(ctx context.Context, uri string, upto int64, known []*entry) (int64, error) {
	common := max(upto-lookBack, 0)
	for m, err := range x.store.Log(ctx, uri, common) {
		if err != nil {
			return 0, err
		}
		if m.Seq > upto {
			break
		}
		if slices.ContainsFunc(known, func(e *entry) bool { return e.Seq == m.Seq && e.ID == m.ID }) {
			common = m.Seq
		}
	}
	return common, nil
}

// cut drops what is known of the messages of t above upto, and has the subscriptions continue after common.
// The caller holds the lock of the registry.
func (x *appender) cut(t *topic, common, upto int64) {
	x.log.Error("the store has lost messages that were accepted, as after a failover to a standby that did not have them",
		slog.String("topic", t.url), slog.Int64("seq", upto), slog.Int64("lost", t.last))
	t.recent, t.pages = window{}, nil
	t.epoch++
	t.last, t.since = upto, x.registry.step.Load()
	t.first = min(t.first, upto+1)
	t.ages = ages{loaded: upto}
	if t.whole > common {
		t.whole = 0
	}
	if t.url == changesTopic {
		x.registry.changesRead = min(x.registry.changesRead, common)
	}
	for _, s := range t.subs {
		if s.Progress.Cursor > common {
			s.Progress.Cursor = common
			s.saved = min(s.saved, common)
			x.progress.note(s)
		}
		s.moved = s.moved || s.Progress.Cursor == common // a delivery under way is that of a lost message
		if s.stage == idle {
			t.unlist(s)
			x.scheduler.resume(s)
		}
	}
}
