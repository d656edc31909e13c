package dir

import (
	"context"
	"time"

	"lockstep/intake"
)

// A pacer holds reading to a rate. A nil pacer does not.
type pacer struct {
	rate float64   // bytes a second
	next time.Time // when what was read so far is paid for
}

// newPacer returns a pacer; rate 0 is no limit.
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
		p.next = now // time in which nothing was read is not saved up
	}
	p.next = p.next.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
	return intake.Sleep(ctx, p.next.Sub(now))
}
