// Package turns ends the work for a set of a Source whose documents or resources arrive very
// slowly, so that it does not delay the other sets.
package turns

import (
	"context"
	"fmt"
	"time"
)

const (
	// Patience is how long a set may be slow at first.
	Patience = time.Minute

	slowBytes = 16 << 10 // a second: what arrives slower than this is slow
	looks     = 4        // while patience lasts
)

// ErrSlow is the cause of a context that ends because a set is slow.
var ErrSlow = fmt.Errorf("%w: the set is slow, and others are waiting", context.Canceled)

// Traffic counts what has been sent and received.
type Traffic interface {
	Requests() int64
	Bytes() int64
	Held() time.Duration // waited because of the client's own limit
}

// Watch returns a context that ends with [ErrSlow] as its cause when little has arrived, and no
// request was sent, for as long as patience lasts. Nothing at all is not slow: something else is
// done, or the client's own limits apply. The function ends the watching.
func Watch(ctx context.Context, t Traffic, patience time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		tick := time.NewTicker(patience / looks)
		defer tick.Stop()
		requests, bytes, held := t.Requests(), t.Bytes(), t.Held()
		for slow := 0; slow < looks; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			r, b, h := t.Requests(), t.Bytes(), t.Held()
			if slow++; r > requests || b == bytes || h-held >= patience/looks/2 || float64(b-bytes) >= slowBytes*(patience/looks).Seconds() {
				slow = 0
			}
			requests, bytes, held = r, b, h
		}
		cancel(ErrSlow)
	}()
	return ctx, func() { cancel(nil) }
}
