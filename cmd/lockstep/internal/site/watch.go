package site

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/cmd/lockstep/internal/hubflags"
	"lockstep/cmd/lockstep/internal/publishing"
	"lockstep/cmd/lockstep/internal/sourcereport"
	"lockstep/intake"
	"lockstep/internal/sleep"
)

// notify has the changes of the catalog published.
func (s *Site) notify() {
	select {
	case s.changed <- struct{}{}:
	default: // a notification is pending already
	}
}

// run notifies hubs and builds dumps, watches the origins of the sets and publishes
// changes if watch, and reloads the configuration when it is requested, until ctx ends.
func (s *Site) run(ctx context.Context, watch bool, n *sourcereport.Reporter) error {
	g, ctx := errgroup.WithContext(ctx)
	start := func(set *siteSet) {
		if !watch {
			return
		}
		watching, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		set.stop = func() {
			cancel()
			<-done
		}
		g.Go(func() error {
			defer close(done)
			err := s.watchSet(watching, set, n)
			if ctx.Err() == nil && watching.Err() != nil {
				return nil // the set alone was stopped
			}
			return err
		})
	}
	for _, set := range s.setup.Load().sets {
		start(set)
	}
	g.Go(func() error {
		r := &reloader{site: s, start: start, report: n}
		defer r.leaving.Wait()
		for ctx.Err() == nil {
			tasks := s.startTasks(ctx, watch, n)
			next, err := r.await(ctx, tasks, watch)
			terr := tasks.stop()
			if err == nil && (next == nil || !errors.Is(terr, context.Canceled)) { // else a task that had just begun says that it was stopped
				err = terr
			}
			if err != nil || next == nil {
				return err
			}
			r.replace(ctx, next)
		}
		return nil
	})
	return g.Wait()
}

// watchSet watches the origin of a set until ctx ends.
func (s *Site) watchSet(ctx context.Context, set *siteSet, n *sourcereport.Reporter) error {
	if set.added {
		if err := s.builder.names.begin(ctx, set); err != nil {
			return err
		}
		r, err := set.origin.Scan(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s.builder.sets.report(set.name, intake.Event{Kind: intake.EventScanned, Report: r, Err: err})
		n.Scanned(set.name, set.from.Kind.Away, &r)
		s.notify()
	}
	return set.origin.Watch(ctx, func(intake.Report) { s.notify() })
}

// A taskGroup is the work of a setup.
type taskGroup struct {
	group  *errgroup.Group
	cancel context.CancelFunc
	failed <-chan struct{} // closed when a task has failed
}

// stop ends the tasks, and returns the error of one that failed.
func (t *taskGroup) stop() error {
	t.cancel()
	return t.group.Wait()
}

// startTasks begins the work of the present setup.
func (s *Site) startTasks(ctx context.Context, watch bool, n *sourcereport.Reporter) *taskGroup {
	now := s.setup.Load()
	outer, cancel := context.WithCancel(ctx)
	g, ctx := errgroup.WithContext(outer)
	g.Go(func() error { return now.dumps.Run(ctx, n) })
	g.Go(func() error {
		s.endStrangers(ctx, now, n)
		return now.src.Notify(ctx)
	})
	g.Go(func() error { return now.harvesting.refresh(ctx) })
	if watch {
		o := s.builder.opts
		changes := &publishing.Changes{
			Delay: o.Hubs.Delay, All: now.publish, Urgent: now.urgent,
			IsHeard: func() bool {
				return len(o.Hubs.Elsewhere()) > 0 || now.src.Streams() > 0 || s.hub != nil && s.hub.Subscriptions() > 0
			},
		}
		g.Go(func() error { return changes.Run(ctx, s.changed, n) })
		g.Go(func() error {
			s.offerAgain(ctx, now.sets, n)
			return nil
		})
		g.Go(func() error {
			s.checks.run(ctx, s.notify)
			return nil
		})
	}
	return &taskGroup{group: g, cancel: cancel, failed: ctx.Done()}
}

// waitEvery is how often changes are offered again that wait for room.
const waitEvery = time.Minute

// offerAgain compares all of a set, until ctx ends, when changes of it wait
// because their versions could not be kept: no other event may report them
// again.
func (s *Site) offerAgain(ctx context.Context, sets []*siteSet, n *sourcereport.Reporter) {
	keeper := s.builder.storage.keeper
	for keeper != nil && sleep.For(ctx, waitEvery) == nil {
		for _, set := range sets {
			scanned, err := keeper.OfferAgain(set.list, func() error {
				_, err := set.origin.Scan(ctx)
				return err
			})
			if err != nil && ctx.Err() == nil {
				n.Warn(err)
			}
			if scanned {
				s.notify() // also after a failure, which may have changed the catalog
			}
		}
	}
}

// GoOn publishes changes and builds dumps as they fall due until ctx ends.
func (s *Site) GoOn(ctx context.Context, n *sourcereport.Reporter) error {
	if err := s.run(ctx, true, n); err != nil && ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}

// NotifyOnce notifies hubs of what has been published.
func (s *Site) NotifyOnce(ctx context.Context) error {
	return hubflags.NotifyOnce(ctx, s.setup.Load().src)
}
