package sharedserve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/cmd/lockstep/internal/site"
	"lockstep/cmd/lockstep/internal/stateplace"
	"lockstep/internal/sleep"
)

const (
	lookEvery = 250 * time.Millisecond

	// A look may take so long. Where that is not enough, the next one may take twice as long.
	lookLeast = 5 * time.Second
	lookMost  = 40 * time.Second

	// After a failure to become the publisher, or as the publisher, another process gets the chance to.
	turnPause     = 2 * time.Second
	turnPauseMost = time.Minute
)

// takeTurns has the process be a standby and the publisher in turn, until ctx ends.
func (p *process) takeTurns(ctx context.Context) error {
	published := true // by begin
	for ctx.Err() == nil {
		r := p.present()
		var next *role
		var err error
		if r.own.Load() == nil {
			next, err = p.standBy(ctx, r)
		} else {
			next, err = p.publish(ctx, r, published)
		}
		if err != nil || next == nil {
			return err
		}
		published = false
		p.become(next)
	}
	return nil
}

// together runs tasks until ctx ends, or one of them fails, which ends the others.
func together(ctx context.Context, tasks []site.Task) error {
	g, gctx := errgroup.WithContext(ctx)
	for _, t := range tasks {
		g.Go(func() error { return t(gctx) })
	}
	if err := g.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}

// standBy serves as a standby until this process can publish, and returns that role; nil if ctx
// has ended.
func (p *process) standBy(ctx context.Context, r *role) (*role, error) {
	tctx, cancel := context.WithCancel(ctx)
	tasks := make(chan error, 1)
	go func() {
		tasks <- together(tctx, append(r.site.StandbyTasks(), func(ctx context.Context) error { return p.refresh(ctx, r) }))
	}()
	defer func() {
		cancel()
		<-tasks
	}()
	failed, within := false, lookLeast
	for pause := lookEvery; sleep.For(ctx, pause) == nil; pause = lookEvery {
		began := time.Now()
		free, err := p.look(ctx, r, within)
		if _, other := errors.AsType[*otherError](err); other {
			return nil, err
		}
		if errors.Is(err, stateplace.ErrReplaced) {
			p.Report.Warn(fmt.Errorf("%w: it is opened again", err))
			return p.reopenStandby(ctx)
		}
		if err != nil && ctx.Err() == nil && !failed {
			p.log.WarnContext(ctx, "cannot look which process publishes", slog.Any("err", err))
		}
		failed = err != nil
		if took := time.Since(began); took > within/2 {
			within = min(2*within, lookMost)
		} else if took < within/8 {
			within = max(within/2, lookLeast)
		}
		if err != nil || !free || time.Now().Before(p.rested) {
			if err == nil && !free {
				p.failure.Store(nil) // another process publishes
			}
			continue
		}
		next, err := p.openPublisher(ctx)
		switch {
		case err == nil:
			p.failure.Store(nil)
			return next, nil
		case isOwned(err) || ctx.Err() != nil:
			continue // another one was faster
		}
		err = fmt.Errorf("publish in place of the last publisher: %w", err)
		text := err.Error()
		p.failure.Store(&text)
		p.Report.Warn(err)
		pause = turnPause
	}
	return nil, nil
}

// How often a standby looks at what is published, for its pages, and how soon after a failure.
const (
	refreshEvery = time.Minute
	refreshRetry = 10 * time.Second
)

// refresh has the pages of a standby show what is published, until ctx ends.
func (p *process) refresh(ctx context.Context, r *role) error {
	for pause := refreshEvery; sleep.For(ctx, pause) == nil; {
		pause = refreshEvery
		if !p.lookAtDocuments(ctx, r) {
			pause = refreshRetry
		}
	}
	return nil
}

// lookAtDocuments has the pages of a standby show what is published.
func (p *process) lookAtDocuments(ctx context.Context, r *role) (ok bool) {
	err := r.site.Source().Refresh(ctx)
	if err != nil && ctx.Err() == nil {
		p.log.WarnContext(ctx, "cannot look at what is published", slog.Any("err", err))
	}
	return err == nil
}

// publish publishes until this process no longer owns the database, or another one turns out to have
// written documents, and returns the role of a standby; nil if ctx has ended.
func (p *process) publish(ctx context.Context, r *role, published bool) (*role, error) {
	owned, done := r.site.WhileOwned(ctx)
	defer done()
	owned, cancel := context.WithCancelCause(owned)
	defer cancel(nil)
	go func() {
		select {
		case err := <-r.conflict:
			cancel(&conflictError{err})
		case <-owned.Done():
		}
	}()
	if !published {
		p.Report.IO.Notef("this process publishes now")
		r.site.PublishSoon()
		if !p.Watch {
			if _, err := r.site.PublishOnce(owned, p.Report); err != nil {
				p.Report.Warn(err)
			}
		}
	}
	began := time.Now()
	err := together(owned, r.site.Tasks(p.Watch, p.Report))
	r.own.Store(nil)
	if ctx.Err() != nil {
		r.await(stopRequests)
		return nil, p.resign(r)
	}
	err = stateplace.Cause(owned, err)
	_, conflict := errors.AsType[*conflictError](context.Cause(owned))
	switch {
	case conflict:
		err = context.Cause(owned)
	case err == nil:
		return nil, errors.New("publication has ended") // unreachable: it ends with ctx
	case !stateplace.IsLost(err):
		p.rest(time.Since(began))
	}
	if lost, ok := errors.AsType[*stateplace.LostError](err); ok {
		err = lost.Err // its hint is for processes that cannot be standbys
	} else if rerr := p.resign(r); rerr != nil {
		p.Report.Warn(rerr) // the lease ends by itself
	}
	p.Report.Warn(fmt.Errorf("this process is a standby now: %w", err))
	return p.reopenStandby(ctx)
}

// reopenStandby opens the state as a standby, as soon as that is possible, and returns that role; nil if ctx
// has ended.
func (p *process) reopenStandby(ctx context.Context) (*role, error) {
	for {
		next, err := p.openStandby(ctx)
		if err == nil {
			p.failure.Store(nil)
			return next, nil
		}
		if ctx.Err() != nil {
			return nil, nil
		}
		if _, other := errors.AsType[*otherError](err); other {
			return nil, err
		}
		err = fmt.Errorf("open the state as a standby: %w", err)
		text := err.Error()
		p.failure.Store(&text)
		p.log.WarnContext(ctx, "cannot open the state as a standby", slog.Any("err", err))
		if sleep.For(ctx, turnPause) != nil {
			return nil, nil
		}
	}
}

// rest has this process not publish for some time, after a term of some length that has failed: longer
// each time.
func (p *process) rest(term time.Duration) {
	if term > turnPauseMost {
		p.pause = 0
	}
	p.pause = min(max(2*p.pause, turnPause), turnPauseMost)
	p.rested = time.Now().Add(p.pause)
}

// resign lets another process publish at once.
func (p *process) resign(r *role) error {
	if err := r.site.Database().Resign(); err != nil {
		return fmt.Errorf("let another process publish: %w", err)
	}
	return nil
}

// A conflictError reports that another process has written documents, so that nothing that was
// read of them is certain any more.
type conflictError struct{ err error }

func (e *conflictError) Error() string { return e.err.Error() }
func (e *conflictError) Unwrap() error { return e.err }
