// Package sharing runs one of several processes that share a mirror: it assists the
// coordinator, or is the coordinator as soon as there is none, and learns how the run of
// another one ended.
package sharing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/stateplace"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/destination/share"
	"lockstep/storage/postgres"
)

const (
	lookEvery = 250 * time.Millisecond

	// strangerFor is how long a process may own the state and not take part in the shared
	// mirror: a coordinator does at once.
	strangerFor = 12 * time.Second

	// rejoinFor is how long a process that has lost its connection to the database tries to
	// join the others again.
	rejoinFor   = time.Minute
	rejoinEvery = time.Second

	// A run gives up when this process was lost so often, each time after less than lostAfter.
	lostMost  = 10
	lostAfter = 5 * time.Minute
)

// A Run is the part of this process in what several of them do.
type Run struct {
	Shared *mirror.Shared
	Log    *slog.Logger

	joined int64 // token of the first coordinator that this process has seen
}

// errDone reports that a coordinator has recorded the result.
var errDone = errors.New("the run has ended")

// Sync has coordinate bring the mirror into step, in this process or in another one, and
// returns the result, which is the same in all of them. If a coordinator dies, another
// process is the next, and continues.
func (r *Run) Sync(ctx context.Context, coordinate func(context.Context, *mirror.Turn) (destination.Report, error)) (destination.Report, error) {
	var report destination.Report
	var result error
	err := r.turns(ctx, true, func(ctx context.Context, t *mirror.Turn) error {
		report, result = coordinate(ctx, t)
		if IsLost(result) {
			return result
		}
		if !errors.Is(result, term.ErrInterrupted) {
			if err := record(t, r.Shared.State.Journal, &report, result); err != nil {
				// The others do not learn of it, and one of them continues, as after a kill.
				return fmt.Errorf("%w: %w", share.ErrExpired, err)
			}
		}
		return errDone
	}, func(o *outcome) { report, result = o.Report, o.err() })
	if errors.Is(err, errDone) {
		return report, result
	}
	return report, err
}

// Follow calls coordinate when it is this process's turn. It returns the error of
// coordinate, unless that is due to another process that has become the coordinator.
func (r *Run) Follow(ctx context.Context, coordinate func(context.Context, *mirror.Turn) error) error {
	var result error
	err := r.turns(ctx, false, func(ctx context.Context, t *mirror.Turn) error {
		if result = coordinate(ctx, t); IsLost(result) {
			return result
		}
		return errDone
	}, nil)
	if errors.Is(err, errDone) {
		return result
	}
	return err
}

// IsLost reports whether err is due to another process that has taken over, or may have, or to a
// database that was not available: it says nothing of the mirror, and the work goes on.
func IsLost(err error) bool {
	return errors.Is(err, postgres.ErrLost) || errors.Is(err, share.ErrExpired) || errors.Is(err, postgres.ErrUnavailable)
}

// turns joins the others, again if need be, until coordinate has returned something else
// than that this process is lost; or, if once, until another process has recorded a result.
func (r *Run) turns(ctx context.Context, once bool, coordinate func(context.Context, *mirror.Turn) error, other func(*outcome)) error {
	for lost := 1; ; lost++ {
		began := time.Now()
		err := r.member(ctx, func(ctx context.Context) error { return r.take(ctx, once, coordinate, other) })
		if !IsLost(err) || ctx.Err() != nil {
			return err
		}
		if time.Since(began) > lostAfter {
			lost = 1
		}
		if once && lost == lostMost {
			return term.WithHint(fmt.Errorf("the state is too slow, or cannot be reached reliably: this process has lost its part %d times in succession: %w", lost, err), "check the database and the network to it; what was done is kept, and the next run continues")
		}
		r.Log.WarnContext(ctx, "this process joins the others again", slog.Any("err", err))
		if err := r.rejoin(ctx); err != nil {
			return err
		}
	}
}

// rejoin joins the others again, as soon as the database can be reached.
func (r *Run) rejoin(ctx context.Context) error {
	for end := time.Now().Add(rejoinFor); ; {
		err := r.Shared.Join(ctx)
		if err == nil || ctx.Err() != nil || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(rejoinEvery):
		}
	}
}

// member calls do while this process is one of those that share the mirror.
func (r *Run) member(ctx context.Context, do func(context.Context) error) error {
	m := r.Shared.Member()
	within, cancel := context.WithCancelCause(ctx)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		if err := m.Keep(within); err != nil {
			cancel(err)
		}
	}()
	err := do(within)
	if cause := context.Cause(within); cause != nil && ctx.Err() == nil {
		err = cause
	}
	cancel(nil)
	<-kept
	return err
}

// take coordinates, and assists while another process does.
func (r *Run) take(ctx context.Context, once bool, coordinate func(context.Context, *mirror.Turn) error, other func(*outcome)) error {
	for {
		t, err := r.Shared.Turn(ctx)
		owned, taken := errors.AsType[*postgres.OwnedError](err)
		switch {
		case err == nil:
			err = coordinate(ctx, t)
			return errors.Join(err, r.closeTurn(ctx, t))
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, postgres.ErrUnavailable): // until the lease of this process ends
			if err := r.pause(ctx, err); err != nil {
				return err
			}
			continue
		case !taken:
			return stateplace.Explain(err)
		}
		if err := r.assist(ctx, owned, once, other); err != nil {
			return err
		}
	}
}

func (r *Run) closeTurn(ctx context.Context, t *mirror.Turn) error {
	if err := t.Close(); err != nil {
		r.Log.WarnContext(ctx, "end of the turn", slog.Any("err", err)) // the lease ends by itself
	}
	return nil
}

// assist assists the coordinator until there is none, which is no error.
func (r *Run) assist(ctx context.Context, owned *postgres.OwnedError, once bool, other func(*outcome)) error {
	d, err := r.Shared.Destination()
	if err != nil {
		return err
	}
	m := r.Shared.Member()
	if err := m.Look(ctx); err != nil { // what it saw before is older than owned
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return r.pause(ctx, err)
	}
	within, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- d.Assist(within, m) }()
	err = r.watch(within, m, owned, once, other)
	cancel()
	if aerr := <-ended; IsLost(aerr) {
		err = aerr
	}
	return err
}

// pause waits after an error of the database, which may be over soon; if it is not, the lease of
// this process ends.
func (r *Run) pause(ctx context.Context, err error) error {
	r.Log.WarnContext(ctx, "look at the other processes", slog.Any("err", err))
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(lookEvery):
		return nil
	}
}

// watch returns when there is no coordinator, or a result.
func (r *Run) watch(ctx context.Context, m *share.Member, owned *postgres.OwnedError, once bool, other func(*outcome)) error {
	known := time.Now() // when the coordinator was last among the members
	for {
		view, _ := m.View()
		members := 0
		for _, p := range view.Alive {
			if view.Present && p.Run == view.Run && p.ID != m.ID() {
				members++
			}
		}
		if members > 0 || !view.Present {
			known = time.Now()
		}
		if members > 0 && r.joined == 0 {
			r.joined = view.Run
			r.Log.InfoContext(ctx, "assisting another process", slog.String("coordinator", owned.Owner))
		}
		if once && r.joined > 0 {
			o, err := read(ctx, r.Shared.State.Journal)
			if err == nil && o != nil && o.Run >= r.joined {
				other(o)
				return errDone
			}
		}
		if !view.Present {
			return nil
		}
		if time.Since(known) > max(strangerFor, 2*m.Lease()) {
			return stateplace.Explain(owned)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(lookEvery):
		}
	}
}
