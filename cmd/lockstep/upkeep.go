package main

import (
	"context"
	"errors"
	"time"

	"lockstep/source"
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

// sweepEvery is how often it is looked for bytes that nobody needs any more.
const sweepEvery = time.Hour

// dump brings the dumps in step once, and removes bytes that nobody needs any
// more. Without dumps those that were published before are taken back.
func (s *site) dump(ctx context.Context, n *newsroom) (source.DumpReport, error) {
	r, err := s.src.PublishDumps(ctx)
	n.dumped(r)
	return r, errors.Join(err, s.sweep(ctx))
}

func (s *site) sweep(ctx context.Context) error {
	if s.keeper == nil {
		return nil
	}
	_, err := s.keeper.Sweep(ctx)
	return err
}

// upkeep does in the background, until ctx ends, what takes its time: it builds
// dumps as they fall due, and removes bytes that nobody needs any more.
func (s *site) upkeep(ctx context.Context, n *newsroom) error {
	check, retry := s.dumpCheck(), dumpRetryFirst
	var swept time.Time
	for {
		wait := check
		r, err := s.src.PublishDumps(ctx)
		if ctx.Err() != nil {
			return nil
		}
		n.dumped(r)
		if err != nil {
			n.io.Errorf("warning: %v; trying again in %s\n", err, retry)
			wait, retry = retry, min(2*retry, dumpRetryMost)
		} else {
			retry = dumpRetryFirst
		}
		if time.Since(swept) >= sweepEvery {
			if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
				n.warn(err)
			}
			swept = time.Now()
		}
		if !pause(ctx, wait) {
			return nil
		}
	}
}

// dumpCheck returns how often to look whether a dump is due.
func (s *site) dumpCheck() time.Duration {
	check := dumpCheckMost
	for _, c := range s.opts.sets {
		if d := c.ResourceDump; d != nil && d.Every > 0 {
			check = min(check, time.Duration(d.Every)/dumpCheckShare)
		}
		if d := c.ChangeDump; d != nil && d.Every > 0 {
			check = min(check, time.Duration(d.Every)/dumpCheckShare)
		}
	}
	return max(check, dumpCheckLeast)
}
