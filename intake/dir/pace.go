package dir

import (
	"context"
	"time"

	"lockstep/internal/sleep"
)

// A pacer limits the rate of reading. A nil pacer does not.
type pacer struct {
	rate float64   // bytes a second
	next time.Time // when the bytes read so far have used up their time
}

// newPacer returns a pacer; a rate of 0 means no limit.
func newPacer(rate int64) *pacer {
	if rate <= 0 {
		return nil
	}
	return &pacer{rate: float64(rate)}
}

// wait waits until n bytes more may have been read. The error is that of ctx.
func (p *pacer) wait(ctx context.Context, n int) error {
	if p == nil {
		return nil
	}
	now := time.Now()
	if p.next.Before(now) {
		p.next = now // idle time does not accumulate
	}
	p.next = p.next.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
	return sleep.For(ctx, p.next.Sub(now))
}
