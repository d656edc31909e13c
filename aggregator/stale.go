package aggregator

import (
	"context"
	"time"

	"lockstep/internal/sleep"
)

// A comparison that a deletion calls for begins after staleWait, or staleShare times the
// duration of the last one, so that frequent deletions cost little.
const (
	staleWait  = time.Second
	staleShare = 20
)

// A stale remembers that links may lead to a resource that was deleted. Which ones do,
// only a comparison of all shows.
type stale struct {
	deleted chan struct{} // holds a token if that is so
}

// mark records that links may lead to a resource that was deleted.
func (s *stale) mark() {
	select {
	case s.deleted <- struct{}{}:
	default: // that is known
	}
}

// wait waits for the time of the next comparison, of which the last one took some time:
// for an interval, or less if there is a mark.
func (s *stale) wait(ctx context.Context, interval, took time.Duration) error {
	due := time.NewTimer(interval)
	defer due.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-due.C:
		return nil
	case <-s.deleted:
	}
	if err := sleep.For(ctx, max(staleWait, staleShare*took)); err != nil {
		return err
	}
	select {
	case <-s.deleted: // meanwhile: the comparison that begins now shows that, too
	default:
	}
	return nil
}
