// Package bundle examines the resources of a plan, many at a time, and passes the
// results on in the order of the plan.
package bundle

import (
	"context"
	"iter"
	"runtime"

	"golang.org/x/sync/errgroup"

	"lockstep/destination/internal/plan"
)

// The bounds of a bundle of resources that one worker examines. A large file is a
// bundle of its own.
const (
	bundleCount = 64
	bundleBytes = 4 << 20
)

// A bundle is some actions that follow each other, and the results of look.
type bundle[T any] struct {
	actions []plan.Action
	results []T
	err     error
	done    chan struct{} // closed when results or err are there
}

// Each calls look for each action, many at a time, and then book, one at a
// time and in the order of the actions. The files of consecutive resources are
// mostly in the same directory. Neither function is called again after one of
// them has failed.
func Each[T any](ctx context.Context, actions iter.Seq2[plan.Action, error], look func(context.Context, *plan.Action) (T, error), book func(*plan.Action, *T) error) error {
	workers := min(max(2*runtime.GOMAXPROCS(0), 8), 32)
	todo, order := make(chan *bundle[T], workers), make(chan *bundle[T], 4*workers)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(order)
		defer close(todo)
		return bundles(actions, func(b *bundle[T]) error {
			for _, c := range []chan<- *bundle[T]{order, todo} {
				select {
				case c <- b:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			return nil
		})
	})
	for range workers {
		g.Go(func() error {
			for b := range todo {
				b.look(ctx, look)
			}
			return nil
		})
	}
	g.Go(func() error {
		for b := range order {
			select {
			case <-b.done:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			for i := range b.results {
				if err := book(&b.actions[i], &b.results[i]); err != nil {
					return err
				}
			}
			if b.err != nil {
				return b.err
			}
		}
		return nil
	})
	return g.Wait()
}

// bundles passes the actions on in bundles.
func bundles[T any](actions iter.Seq2[plan.Action, error], hand func(*bundle[T]) error) error {
	b := &bundle[T]{done: make(chan struct{})}
	var bytes int64
	for a, err := range actions {
		if err != nil {
			return err
		}
		weight := max(a.Held.Length, a.Length)
		if n := len(b.actions); n == bundleCount || n > 0 && bytes+weight > bundleBytes {
			if err := hand(b); err != nil {
				return err
			}
			b, bytes = &bundle[T]{done: make(chan struct{})}, 0
		}
		b.actions, bytes = append(b.actions, a), bytes+weight
	}
	return hand(b)
}

// look fills the results up to the first failure.
func (b *bundle[T]) look(ctx context.Context, look func(context.Context, *plan.Action) (T, error)) {
	defer close(b.done)
	b.results = make([]T, 0, len(b.actions))
	for i := range b.actions {
		r, err := look(ctx, &b.actions[i])
		if err != nil {
			b.err = err
			return
		}
		b.results = append(b.results, r)
	}
}
