package aggregator

import (
	"context"
	"fmt"
	"sync"
	"time"

	"lockstep/intake"
	"lockstep/internal/sleep"
)

// DefaultFirstWait is how long the first run of an upstream may delay the first
// publication of its set.
const DefaultFirstWait = time.Hour

// A firstRun is the first run of an Upstream since it was made. It is over when the
// mirror was compared with the catalog, and every set of the upstream was read or failed to
// be; or when it has taken Options.FirstWait.
type firstRun struct {
	mu             sync.Mutex    // guards the rest, but not what over says
	over           chan struct{} // closed when the run is over
	compared, read bool
	late           bool // it was still under way after FirstWait
	settled        bool // what waited for it is in the catalog
}

// step records that a part of the run is done.
func (f *firstRun) step(do func(*firstRun)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do(f)
	if f.isOver() || !f.late && !(f.compared && f.read) {
		return
	}
	close(f.over)
}

func (f *firstRun) isOver() bool {
	select {
	case <-f.over:
		return true
	default:
		return false
	}
}

func (f *firstRun) isCompared() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.compared || f.isOver()
}

func (f *firstRun) isLate() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.late
}

// settle records that what waited for the run is in the catalog.
func (f *firstRun) settle() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settled = true
}

// Awaited reports whether the first run since the Upstream was made is not over: neither
// has it ended nor failed, nor has it taken Options.FirstWait. A set that was never
// published should not be published yet, because most of its resources would be changes.
func (u *Upstream) Awaited() bool {
	u.first.mu.Lock()
	defer u.first.mu.Unlock()
	return !u.first.settled
}

// Awaited reports whether the first run of an upstream of the group is not over, as
// [Upstream.Awaited] does.
func (g *Group) Awaited() bool {
	for _, u := range g.all() {
		if u.Awaited() {
			return true
		}
	}
	return false
}

// passEnded notes that the Follower has made a pass: the upstream was read if it has made
// one of each set, or has found none; and the mirror was in step if these succeeded. A pass
// that finds nothing new is not reported, except after a failure.
func (u *Upstream) passEnded() {
	f := u.following.Load()
	if f == nil || u.first.isOver() && u.inStep.Load() && !u.failed.Load() {
		return
	}
	read, inStep, works := f.Progress()
	if !read {
		return
	}
	u.first.step(func(f *firstRun) { f.read = true })
	if inStep && !u.inStep.Swap(true) && u.spared.Load() {
		u.stale.mark()
	}
	if works && u.failed.Swap(false) {
		u.events.Emit(intake.Event{Kind: intake.EventScanned})
	}
}

// awaitFirst waits until the first run is over, and has what waited for it published.
func (u *Upstream) awaitFirst(ctx context.Context, onChange func(intake.Report)) error {
	if !u.Awaited() {
		return nil
	}
	timer := time.NewTimer(u.o.FirstWait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return nil
	case <-u.first.over:
	case <-timer.C:
		u.first.step(func(f *firstRun) { f.late = true })
	}
	for retry := time.Duration(0); !u.settleFirst(ctx); {
		retry = min(max(2*retry, intake.RetryFirst), intake.RetryMost)
		if sleep.For(ctx, retry) != nil {
			return nil
		}
	}
	if ctx.Err() == nil {
		u.first.settle()
		if onChange != nil {
			onChange(intake.Report{})
		}
	}
	return nil
}

// settleFirst has what need not wait any longer published in the group, if there is one. It
// reports whether that succeeded; if not, it has reported the error.
func (u *Upstream) settleFirst(ctx context.Context) bool {
	if u.o.onFirst == nil {
		return true
	}
	err := u.o.onFirst(ctx)
	if err != nil && ctx.Err() == nil {
		u.events.Emit(intake.Event{Kind: intake.EventScanned, Err: err})
	}
	return err == nil
}

// unavailable describes why the resources of an upstream are not waited for any longer, or
// returns nil if it was read.
func unavailable(u *Upstream) error {
	why := "could not be read"
	if u.first.isLate() {
		why = fmt.Sprintf("was not read within %s", u.o.FirstWait)
	} else if u.Status().FailingSince.IsZero() {
		return nil
	}
	return fmt.Errorf("it %s: resources that it may have, too, are republished from upstreams of lower priority until it is", why)
}
