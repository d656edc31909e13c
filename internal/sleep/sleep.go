// Package sleep waits for a time that a context may cut short.
package sleep

import (
	"context"
	"time"
)

// For waits for d and returns nil, or until ctx ends and returns its cause. If d is not
// positive, it returns at once.
func For(ctx context.Context, d time.Duration) error {
	if d <= 0 || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
