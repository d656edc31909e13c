package intake

import (
	"context"
	"errors"
	"slices"
	"time"

	"lockstep/resourcesync"
)

// Intervals of a Watch.
const (
	FileInterval = 500 * time.Millisecond // between two checks of a list that is a file
	Quiet        = 200 * time.Millisecond // a file that may still be written is read when it has not changed for this long,
	Patience     = 5 * time.Second        // or after this long if it keeps changing
	RetryFirst   = time.Second            // pause after a scan that failed; doubles
	RetryMost    = time.Minute
)

// DefaultFullInterval is how often a harvest reads all of a feed or repository
// again. Only that detects changes that an incremental harvest does not show
// (AP-HV-12), but it requests everything that a server has.
const DefaultFullInterval = 30 * 24 * time.Hour

// Algorithms returns a copy of the hash algorithms given to an origin, or MD5 and
// SHA-256, the default, if there are none.
func Algorithms(given []resourcesync.Algorithm) []resourcesync.Algorithm {
	if len(given) == 0 {
		return []resourcesync.Algorithm{resourcesync.MD5, resourcesync.SHA256}
	}
	return slices.Clone(given)
}

// Forever waits until ctx ends and returns the cause.
func Forever(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// Cause returns the reason why ctx ended if err is a consequence of that, and
// otherwise err.
func Cause(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return context.Cause(ctx)
	}
	return err
}
