package push

import (
	"context"
	"fmt"
	"time"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/wording"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
)

// maxCompared is the number of pending deletions looked up at a time.
const maxCompared = 1000

// A Review compares the changes that notifications announced with the Source's
// documents, after these have brought a set into step.
type Review struct {
	Set        *saved.Set
	State      *State
	Journal    journal.Journal
	Client     *fetch.Client
	Jobs       int           // concurrent requests
	DoubtEvery time.Duration // the minimum time between two comparisons of everything
	Held       int64         // resources of the set
	Recount    bool          // deletions are counted from the end of this pull

	Warn       func(uri, text string)
	CompareAll func(context.Context) error                                // compares all of the set with the Source
	Remove     func(context.Context, []desired.Resource) (Results, error) // removes resources that the Source confirms to be gone

	Contradicted int64 // result: notified changes that the Source's documents contradict
	Pending      int64 // result: deletions that the Source has not confirmed
}

// Run compares the changes. If the documents do not confirm a notification, all of
// the set is compared to repair it.
func (r *Review) Run(ctx context.Context, now time.Time) error {
	if r.Recount || r.Set.Compared {
		r.State.RestartCount()
	}
	r.State.raisePeak(r.Held)
	if !r.State.IsEmpty() {
		if err := r.compareNotified(ctx, now); err != nil {
			return err
		}
	} else if r.State.moved {
		if err := r.record(ctx, journal.Batch{Save: map[string][]byte{DocName(r.Set.Number): saved.Encode(r.State)}}); err != nil {
			return err
		}
	}
	r.State.moved = false
	return r.settlePending(ctx, now)
}

func (r *Review) compareNotified(ctx context.Context, now time.Time) error {
	p, set := r.State, r.Set
	doubtful, contradicted := p.Pulled(set, now, set.Compared || set.Lists == "")
	if contradicted > 0 {
		r.contradicted(int64(contradicted), "an update that changed nothing", now)
	}
	if doubtful > 0 && now.Sub(p.Doubted) >= r.DoubtEvery {
		p.Doubted = now
		r.Warn(set.Changes, fmt.Sprintf("set %s: %s that it notified are in none of its documents: comparing everything", set.Name, wording.Plural(int64(doubtful), "change")))
		set.Doubted = true
		err := r.CompareAll(ctx)
		set.Doubted = false
		if err != nil {
			return err
		}
		p.Pulled(set, now, true)
		if set.Compared {
			p.RestartCount()
		}
	}
	return r.record(ctx, journal.Batch{Save: p.Save(set.Number)})
}

// settlePending settles the pending deletions that the documents have carried out
// or contradict, and asks the Source about the others.
func (r *Review) settlePending(ctx context.Context, now time.Time) error {
	all, err := r.compareDeletions(ctx, now)
	if err != nil {
		return err
	}
	if len(all.Drop) > 0 {
		if err := r.record(ctx, journal.Batch{Settle: all.Drop}); err != nil {
			return err
		}
	}
	if all.Contradicted > 0 {
		r.contradicted(all.Contradicted, "the deletion of "+fetch.Printable(all.First), now)
		if err := r.record(ctx, journal.Batch{Save: map[string][]byte{DocName(r.Set.Number): saved.Encode(r.State)}}); err != nil {
			return err
		}
	}
	err = r.removePending(ctx, all)
	r.Set.Pending, r.Pending = all.Left, all.Left
	if all.Left > 0 {
		r.Warn(r.Set.URI, fmt.Sprintf("set %s: the Source has not confirmed %s that it notified, and still has what they name; they stay pending", r.Set.Name, wording.Plural(all.Left, "deletion")))
	}
	return err
}

// compareDeletions compares the pending deletions of the set with the mirror.
func (r *Review) compareDeletions(ctx context.Context, now time.Time) (*settlement, error) {
	all := new(settlement)
	var some []desired.Resource
	flush := func() error {
		if len(some) == 0 {
			return nil
		}
		err := all.compare(ctx, r.Journal, r.Set, some, now)
		some = some[:0]
		return err
	}
	for o, err := range r.Journal.Owed(ctx, r.Set.Number) {
		if err != nil {
			return nil, err
		}
		w, _, err := desired.Decode(o.URI, string(o.Entry))
		if err != nil {
			return nil, err
		}
		if !w.Unconfirmed || !w.Gone {
			continue
		}
		if some = append(some, w); len(some) == maxCompared {
			if err := flush(); err != nil {
				return nil, err
			}
		}
	}
	return all, flush()
}

// removePending asks the Source about the remaining deletions, and carries out
// those that it confirms.
func (r *Review) removePending(ctx context.Context, t *settlement) error {
	if len(t.Ask) == 0 {
		return nil
	}
	t.Left += int64(len(t.Ask))
	answers, err := Probe(ctx, r.Client, t.Ask, r.Jobs)
	if err != nil {
		return err
	}
	var gone []desired.Resource
	for i := range answers {
		if answers[i] {
			gone = append(gone, t.Ask[i])
		}
	}
	if len(gone) == 0 {
		return nil
	}
	results, err := r.Remove(ctx, gone)
	if err != nil {
		return err
	}
	t.Left -= int64(len(gone))
	docs := map[string][]byte{}
	r.State.Settle(r.Set.Number, nil, results, docs)
	return r.record(ctx, journal.Batch{Save: docs})
}

// contradicted pauses the use of notifications: a complete document of the Source
// contradicts them.
func (r *Review) contradicted(n int64, first string, now time.Time) {
	p := r.State
	p.Contradict(n, fmt.Sprintf("the Source's own documents contradict %s that it notified, as %s", wording.Plural(n, "change"), first), now)
	r.Contradicted += n
	r.Warn(r.Set.Changes, fmt.Sprintf("set %s: %s: its notifications are not used until %s, and it is polled instead", r.Set.Name, p.Reason, wording.Time(p.Paused)))
}

func (r *Review) record(ctx context.Context, b journal.Batch) error {
	if err := r.Journal.Record(ctx, b); err != nil {
		return fmt.Errorf("record progress: %w", err)
	}
	return nil
}
