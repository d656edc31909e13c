package provenance

import (
	"context"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
)

// seedOr returns seed, or one chosen at random for 0.
func seedOr(seed uint64) uint64 {
	for seed == 0 {
		seed = rand.Uint64() >> 33 // short enough to be typed
	}
	return seed
}

// Run checks a sample of copies, each of which has the same chance to be in it, or all
// of them. It returns the error that copies yields, or that of ctx; the Report has the
// results until then.
func (c *Checker) Run(ctx context.Context, copies iter.Seq2[Copy, error]) (Report, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan Copy)
	var workers sync.WaitGroup
	for range c.opts.Jobs {
		workers.Go(func() {
			for one := range work {
				if err := c.check(ctx, &one); err != nil {
					cancel(err)
				}
			}
		})
	}
	err := c.feed(ctx, copies, work)
	close(work)
	workers.Wait()
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return c.Report(), err
}

// feed sends the copies to be checked.
func (c *Checker) feed(ctx context.Context, copies iter.Seq2[Copy, error], work chan<- Copy) error {
	send := func(one Copy) error {
		select {
		case work <- one:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	all := c.opts.Sample == SampleAll
	s := sampler{want: min(c.opts.Sample, MaxSample), rnd: rand.New(rand.NewPCG(c.opts.Seed, 0))}
	for one, err := range copies {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		c.mu.Lock()
		if one.Via != nil {
			c.report.Copies++
		} else {
			c.report.WithoutVia++
		}
		c.mu.Unlock()
		switch {
		case one.Via == nil:
		case !all:
			s.offer(&one)
		default:
			if err := send(one.clone()); err != nil {
				return err
			}
		}
	}
	for i := range s.chosen {
		if err := send(s.chosen[i]); err != nil {
			return err
		}
	}
	return nil
}

// A sampler chooses copies at random while they are read, each with the same chance
// (Vitter's algorithm R).
type sampler struct {
	want   int
	rnd    *rand.Rand
	seen   int64
	chosen []Copy
}

// offer offers a copy to the sampler.
func (s *sampler) offer(one *Copy) {
	if s.want <= 0 {
		return
	}
	s.seen++
	i := int64(len(s.chosen))
	if i < int64(s.want) {
		s.chosen = append(s.chosen, Copy{})
	} else if i = s.rnd.Int64N(s.seen); i >= int64(s.want) {
		return
	}
	s.chosen[i] = one.clone()
}

// clone returns a copy that remains valid when the next one is read, which may use the
// same memory.
func (c Copy) clone() Copy {
	via := *c.Via
	via.Hashes = slices.Clone(via.Hashes)
	c.Via, c.Hashes = &via, slices.Clone(c.Hashes)
	return c
}
