package publishing

import (
	"context"
	"time"

	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/sourcereport"
	"lockstep/intake"
	"lockstep/source"
)

// How often the background work checks whether a dump is due: a fraction of the
// interval between dumps, within bounds. A check costs next to nothing.
const (
	dumpCheckShare = 10
	dumpCheckLeast = time.Second
	dumpCheckMost  = time.Minute
)

// How long dumps that could not be built wait before they are tried again: twice as
// long each time. Building one takes far more than publishing a Change List.
const (
	dumpRetryFirst = 10 * time.Second
	dumpRetryMost  = time.Hour
)

// sweepEvery is how often unused bytes are searched for.
const sweepEvery = time.Hour

// Dumps builds dumps as they fall due.
type Dumps struct {
	Check   time.Duration                                    // how often to check whether one is due, [CheckInterval]
	Publish func(context.Context) (source.DumpReport, error) // builds the dumps that are due
	Sweep   func(context.Context) error                      // removes bytes that nothing uses any more
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
// ctx ends.
func (d *Dumps) Run(ctx context.Context, n *sourcereport.Reporter) error {
	retry := dumpRetryFirst
	var swept time.Time
	for {
		wait := d.Check
		r, err := d.Publish(ctx)
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
			if err := d.Sweep(ctx); err != nil && ctx.Err() == nil {
				n.Warn(err)
			}
			swept = time.Now()
		}
		if intake.Sleep(ctx, wait) != nil {
			return nil
		}
	}
}
