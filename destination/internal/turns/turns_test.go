package turns

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// traffic is that of a run which has received so many bytes a second, and had to wait for its own
// limit for a share of the time.
type traffic struct {
	start time.Time
	rate  float64
	held  float64
}

func (t *traffic) Requests() int64 { return 1 }
func (t *traffic) Bytes() int64    { return int64(t.rate * time.Since(t.start).Seconds()) }
func (t *traffic) Held() time.Duration {
	return time.Duration(t.held * float64(time.Since(t.start)))
}

// TestWatch: a set is slow if the Source sends little, and not if the client's own limit applies.
func TestWatch(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		rate, held float64
		slow       bool
	}{
		"little":                     {rate: 300, slow: true},
		"little, and short waits":    {rate: 300, held: 0.1, slow: true},
		"nothing":                    {},
		"much":                       {rate: 20_000},
		"the client's own limit":     {rate: 10_000, held: 0.99},
		"waits of several transfers": {rate: 10_000, held: 12},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, done := Watch(t.Context(), &traffic{time.Now(), tt.rate, tt.held}, time.Minute)
				defer done()
				time.Sleep(time.Minute + time.Second)
				if slow := errors.Is(context.Cause(ctx), ErrSlow); slow != tt.slow {
					t.Errorf("slow: %t, want %t", slow, tt.slow)
				}
			})
		})
	}
}
