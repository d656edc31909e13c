package site

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/cmd/lockstep/internal/hubflags"
	"lockstep/cmd/lockstep/internal/sourcereport"
)

// How often it is looked whether a dump is due: a fraction of how often one is
// wanted, within bounds. Looking costs next to nothing.
const (
	dumpCheckShare = 10
	dumpCheckLeast = time.Second
	dumpCheckMost  = time.Minute
)

// How long dumps that could not be built wait for better times: twice as long
// each time. To build them takes far more than to publish a Change List.
const (
	dumpRetryFirst = 10 * time.Second
	dumpRetryMost  = time.Hour
)

// sweepEvery is how often unused bytes are looked for.
const sweepEvery = time.Hour

// Dump brings the dumps in step once, and removes bytes that nothing uses any
// more. Without dumps it withdraws those that were published before.
func (s *Site) Dump(ctx context.Context, p *Publication, n *sourcereport.Reporter) (err error) {
	n.Dumping()
	p.dumps, err = s.src.PublishDumps(ctx)
	n.Dumped(p.dumps)
	return errors.Join(err, s.sweep(ctx))
}

// NotifyOnce notifies hubs of what has been published.
func (s *Site) NotifyOnce(ctx context.Context) error { return hubflags.NotifyOnce(ctx, s.src) }

func (s *Site) sweep(ctx context.Context) error {
	if s.keeper == nil {
		return nil
	}
	_, err := s.keeper.Sweep(ctx)
	return err
}

// upkeep does slow work in the background until ctx ends: it builds dumps as
// they fall due, and removes bytes that nothing uses any more.
func (s *Site) upkeep(ctx context.Context, n *sourcereport.Reporter) error {
	check, retry := s.dumpCheck(), dumpRetryFirst
	var swept time.Time
	for {
		wait := check
		r, err := s.src.PublishDumps(ctx)
		if ctx.Err() != nil {
			return nil
		}
		n.Dumped(r)
		if err != nil {
			n.IO.Errorf("warning: %v; trying again in %s\n", err, retry)
			wait, retry = retry, min(2*retry, dumpRetryMost)
		} else {
			retry = dumpRetryFirst
		}
		if time.Since(swept) >= sweepEvery {
			if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
				n.Warn(err)
			}
			swept = time.Now()
		}
		if !pause(ctx, wait) {
			return nil
		}
	}
}

// dumpCheck returns how often to look whether a dump is due.
func (s *Site) dumpCheck() time.Duration {
	check := dumpCheckMost
	for _, c := range s.opts.Sets {
		if d := c.ResourceDump; d != nil && d.Every > 0 {
			check = min(check, time.Duration(d.Every)/dumpCheckShare)
		}
		if d := c.ChangeDump; d != nil && d.Every > 0 {
			check = min(check, time.Duration(d.Every)/dumpCheckShare)
		}
	}
	return max(check, dumpCheckLeast)
}

// GoOn publishes changes and builds dumps as they fall due until ctx ends.
func (s *Site) GoOn(ctx context.Context, n *sourcereport.Reporter) error {
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.watch(gctx, n) })
	g.Go(func() error { return s.upkeep(gctx, n) })
	g.Go(func() error { return s.src.Notify(gctx) })
	if err := g.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}
