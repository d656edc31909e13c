package intake

import (
	"context"
	"errors"
	"slices"
	"time"

	"lockstep/resourcesync"
)

// The rhythm of a Watch.
const (
	FileInterval = 500 * time.Millisecond // between looks at a list that is a file
	Quiet        = 200 * time.Millisecond // a file that may still be written is read when it has not changed for so long,
	Patience     = 5 * time.Second        // or after so long if it keeps changing
	RetryFirst   = time.Second            // after a scan that failed; doubles
	RetryMost    = time.Minute
)

// DefaultFullInterval is how often a harvest reads all of a feed or repository
// again. Only that finds what changed without a trace (AP-HV-12), but it asks a
// server for all that it has.
const DefaultFullInterval = 30 * 24 * time.Hour

// Algorithms returns a copy of the hash algorithms given to an origin, or MD5 and
// SHA-256, the default, if there are none.
func Algorithms(given []resourcesync.Algorithm) []resourcesync.Algorithm {
	if len(given) == 0 {
		return []resourcesync.Algorithm{resourcesync.MD5, resourcesync.SHA256}
	}
	return slices.Clone(given)
}

// Forever waits for the end of ctx.
func Forever(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// Sleep waits for d or the end of ctx, whose error it returns.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Cause prefers the reason why ctx ended to what broke because it did.
func Cause(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return context.Cause(ctx)
	}
	return err
}
