package site

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/cmd/lockstep/internal/hubflags"
	"lockstep/cmd/lockstep/internal/publishing"
	"lockstep/cmd/lockstep/internal/sourcereport"
	"lockstep/intake"
)

// A watcher watches the origins of the sets and publishes what changes there.
type watcher struct {
	sets    []*siteSet
	checks  *fileChecks
	waiting func(list string) bool // reports whether changes of a set wait for room
	changes *publishing.Changes
}

// run watches and publishes until ctx ends.
func (w *watcher) run(ctx context.Context, n *sourcereport.Reporter) error {
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default: // a notification is pending already
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, set := range w.sets {
		g.Go(func() error { return set.origin.Watch(ctx, func(intake.Report) { notify() }) })
	}
	g.Go(func() error { return w.changes.Run(ctx, changed, n) })
	g.Go(func() error {
		w.offerAgain(ctx, notify, n)
		return nil
	})
	g.Go(func() error {
		w.checks.run(ctx, notify)
		return nil
	})
	return g.Wait()
}

// waitEvery is how often changes are offered again that wait for room.
const waitEvery = time.Minute

// offerAgain compares all of a set, until ctx ends, when changes of it wait
// because their versions could not be kept: no other event may report them
// again.
func (w *watcher) offerAgain(ctx context.Context, notify func(), n *sourcereport.Reporter) {
	for intake.Sleep(ctx, waitEvery) == nil {
		for _, set := range w.sets {
			if !w.waiting(set.list) {
				continue
			}
			r, err := set.origin.Scan(ctx)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				n.Warn(err)
			}
			if r.Changed() {
				notify()
			}
		}
	}
}

// GoOn publishes changes and builds dumps as they fall due until ctx ends.
func (s *Site) GoOn(ctx context.Context, n *sourcereport.Reporter) error {
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.watcher.run(gctx, n) })
	g.Go(func() error { return s.dumps.Run(gctx, n) })
	g.Go(func() error { return s.src.Notify(gctx) })
	if err := g.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}

// NotifyOnce notifies hubs of what has been published.
func (s *Site) NotifyOnce(ctx context.Context) error { return hubflags.NotifyOnce(ctx, s.src) }
