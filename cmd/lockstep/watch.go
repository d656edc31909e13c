package main

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/intake"
)

// The pace of publications. A change is to be seen within two seconds, and a
// steady stream of them must cost little: what comes close together is
// published together.
const (
	publishDelay = 100 * time.Millisecond // after the first change: a burst becomes one publication
	publishPace  = time.Second            // from one publication to the next, while changes go on
)

// How long a publication that failed, on a full disk say, waits for better
// times: twice as long each time.
const (
	publishRetryFirst = time.Second
	publishRetryMost  = time.Minute
)

// watch publishes what changes where the sets come from, until ctx ends.
func (s *site) watch(ctx context.Context, n *newsroom) error {
	changed := make(chan struct{}, 1)
	g, ctx := errgroup.WithContext(ctx)
	for _, set := range s.sets {
		g.Go(func() error {
			return set.origin.Watch(ctx, func(intake.Report) {
				select {
				case changed <- struct{}{}:
				default: // already told
				}
			})
		})
	}
	g.Go(func() error { return s.publishChanges(ctx, changed, n) })
	return g.Wait()
}

// publishChanges publishes, at the agreed pace, whenever it is told of changes.
func (s *site) publishChanges(ctx context.Context, changed <-chan struct{}, n *newsroom) error {
	var rest time.Time // until when the last publication keeps the next one waiting
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
		if !pause(ctx, max(publishDelay, time.Until(rest))) {
			return nil
		}
		start := time.Now()
		if !s.publishSurely(ctx, n) {
			return nil
		}
		// A publication that takes long is followed by a rest as long, so that
		// others get their turn.
		took := time.Since(start)
		rest = start.Add(max(publishPace, 2*took))
	}
}

// publishSurely publishes, again and again if it fails, and reports whether it
// did before ctx ended.
func (s *site) publishSurely(ctx context.Context, n *newsroom) bool {
	for retry := publishRetryFirst; ; retry = min(2*retry, publishRetryMost) {
		r, err := s.publish(ctx)
		if ctx.Err() != nil {
			return false
		}
		if err == nil {
			n.published(r)
			return true
		}
		n.io.errorf("warning: %v; trying again in %s\n", err, retry)
		if !pause(ctx, retry) {
			return false
		}
	}
}

// pause waits, and reports whether it did so to the end of d.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
