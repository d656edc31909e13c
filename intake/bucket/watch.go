package bucket

import (
	"context"
	"time"

	"lockstep/intake"
	"lockstep/internal/sleep"
)

// Watch scans, and scans again whenever [Options.ScanInterval] has passed, until
// ctx ends; then it returns the cause. A bucket does not notify of changes: the
// next scan finds them.
//
// onChange is called for every scan that changed the catalog, or failed: then it may
// have changed more than it reports. The next one waits until it returns. Errors are
// passed to [Options.OnEvent], and the scan is retried sooner than after a success.
func (b *Bucket) Watch(ctx context.Context, onChange func(intake.Report)) error {
	var retry time.Duration // pause after the last failure
	for {
		r, err := b.Scan(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		b.events.Emit(intake.Event{Kind: intake.EventScanned, Err: err, Report: r})
		if (err != nil || r.Changed()) && onChange != nil {
			onChange(r)
		}
		every := b.o.ScanInterval
		pause := max(every, r.Elapsed)
		switch {
		case err != nil:
			retry = min(max(2*retry, intake.RetryFirst), intake.RetryMost)
			pause = retry
			if every > 0 {
				pause = min(retry, max(every, r.Elapsed))
			}
		case every < 0:
			<-ctx.Done()
			return context.Cause(ctx)
		default:
			retry = 0
		}
		if sleep.For(ctx, pause) != nil {
			return context.Cause(ctx)
		}
	}
}
