package publishing

import (
	"context"
	"time"

	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/sourcereport"
	"lockstep/internal/sleep"
	"lockstep/source"
)

// How often the background work checks whether a dump is due: a fraction of the
// interval between dumps, within bounds. A check costs next to nothing.
const (
	dumpCheckShare = 10
	dumpCheckLeast = time.Second
	dumpCheckMost  = time.Minute
)

// How long the dumps of a set that could not be built wait before they are tried again:
// twice as long each time. Building one takes far more than publishing a Change List.
const (
	dumpRetryFirst = 10 * time.Second
	dumpRetryMost  = time.Hour
)

// sweepEvery is how often unused bytes are searched for.
const sweepEvery = time.Hour

// Dumps builds dumps as they fall due.
type Dumps struct {
	Check   time.Duration                                                        // how often to check whether one is due, [CheckInterval]
	Publish func(_ context.Context, except ...string) (source.DumpReport, error) // builds the dumps that are due, but for those of some sets
	Sweep   func(context.Context) error                                          // removes bytes that nothing uses any more
}

// CheckInterval returns how often to check whether a dump of one of the sets is due.
func CheckInterval(sets []config.Set) time.Duration {
	check := dumpCheckMost
	for _, c := range sets {
		if d := c.ResourceDump; d != nil && d.Every > 0 {
			check = min(check, time.Duration(d.Every)/dumpCheckShare)
		}
		if d := c.ChangeDump; d != nil && d.Every > 0 {
			check = min(check, time.Duration(d.Every)/dumpCheckShare)
		}
	}
	return max(check, dumpCheckLeast)
}

// Run builds dumps as they fall due and removes unused bytes, in the background until
// ctx ends. A set that fails delays no other.
func (d *Dumps) Run(ctx context.Context, n *sourcereport.Reporter) error {
	failing := make(failures)
	var swept time.Time
	for {
		r, _ := d.Publish(ctx, failing.waiting()...) // its error is that of the sets that failed
		if ctx.Err() != nil {
			return nil
		}
		n.Dumped(r)
		for i := range r.Sets {
			name := r.Sets[i].Set
			if err := r.Failed[name]; err != nil {
				n.IO.Errorf("warning: %v; trying again in %s\n", err, failing.add(name))
			} else {
				delete(failing, name)
			}
		}
		if time.Since(swept) >= sweepEvery {
			if err := d.Sweep(ctx); err != nil && ctx.Err() == nil {
				n.Warn(err)
			}
			swept = time.Now()
		}
		if sleep.For(ctx, failing.until(d.Check)) != nil {
			return nil
		}
	}
}

// failures are the sets whose dumps could not be built, by name.
type failures map[string]failure

type failure struct {
	retry time.Time     // not tried again before it
	wait  time.Duration // from the failure until then
}

// add records that a set has failed, and returns the time until it is tried again.
func (f failures) add(set string) time.Duration {
	wait := dumpRetryFirst
	if before, ok := f[set]; ok {
		wait = min(2*before.wait, dumpRetryMost)
	}
	f[set] = failure{time.Now().Add(wait), wait}
	return wait
}

// waiting returns the sets that are not to be tried yet.
func (f failures) waiting() []string {
	var sets []string
	for set, failed := range f {
		if time.Now().Before(failed.retry) {
			sets = append(sets, set)
		}
	}
	return sets
}

// until returns the time until something is to be done: at most check, or until a set is to
// be tried again.
func (f failures) until(check time.Duration) time.Duration {
	for _, failed := range f {
		check = min(check, time.Until(failed.retry))
	}
	return max(check, 0)
}
