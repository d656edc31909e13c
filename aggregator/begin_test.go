package aggregator_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/aggregator"
)

// TestBegin: work that is not interrupted makes room for others when it takes long or is
// waited for, also after it could not make room at first.
func TestBegin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := aggregator.NewFleet(aggregator.FleetOptions{Jobs: 1})
		busy := func() int64 { return time.Now().UnixNano() }
		var silent atomic.Bool
		start := time.Now()
		began := func(received func() int64) (end func()) {
			end, err := f.Begin(t.Context(), received)
			if err != nil {
				t.Fatal(err)
			}
			return end
		}
		endFirst := began(busy)
		endSecond := began(func() int64 { // when the first has moved to the place for those that take long
			if silent.Load() {
				return 1
			}
			return busy()
		})
		if took := time.Since(start); took < time.Second || took > 5*time.Second {
			t.Errorf("the second began after %s, want some seconds", took)
		}
		third := make(chan func(), 1)
		go func() { third <- began(busy) }()
		time.Sleep(time.Minute)
		select {
		case <-third:
			t.Error("the third began although both places are taken")
		default:
		}
		silent.Store(true)
		start = time.Now()
		end := <-third
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("the third began %s after the second was waited for, want some seconds", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if end, err := f.Begin(ctx, busy); err == nil {
			end()
			t.Error("Begin with a context that has ended returned no error")
		}
		end()
		endSecond()
		endFirst()
		time.Sleep(time.Second) // the schedule looks once more
	})
}
