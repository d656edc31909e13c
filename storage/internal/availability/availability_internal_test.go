package availability

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestCheckOfSlowServer: a database that needs longer for a check than callers wait works once a check
// has succeeded; one that no longer answers does not, some time later.
func TestCheckOfSlowServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c Check
		var takes atomic.Int64
		probe := func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Duration(takes.Load())):
				return nil
			}
		}
		// becomes asks once a second until the result is that, and returns how long that took.
		becomes := func(works bool) time.Duration {
			t.Helper()
			began := time.Now()
			for time.Since(began) < 3*time.Minute {
				asked := time.Now()
				err := c.Result("d", probe)
				if time.Since(asked) > checkTime {
					t.Fatalf("a caller waits %v", time.Since(asked))
				}
				if (err == nil) == works {
					return time.Since(began)
				}
				time.Sleep(time.Second)
			}
			t.Fatalf("it does not become %t", works)
			return 0
		}
		stays := func(works bool) {
			t.Helper()
			for range 300 {
				if err := c.Result("d", probe); (err == nil) != works {
					t.Fatalf("%v", err)
				}
				time.Sleep(time.Second)
			}
		}
		becomes(true)
		takes.Store(int64(12 * time.Second))
		if took := becomes(false); took > checkTime+2*checkFor {
			t.Errorf("a server that has become slow is reported after %v", took)
		}
		becomes(true)
		stays(true)
		takes.Store(int64(time.Hour))
		if took := becomes(false); took > checkMost+checkTime+2*checkFor {
			t.Errorf("a server that does not answer is reported after %v", took)
		}
		stays(false)
		takes.Store(0)
		becomes(true)
		stays(true)
		takes.Store(int64(time.Hour))
		go func() { time.Sleep(2 * checkFor); c.End() }()
		time.Sleep(checkFor)
		if err := c.Result("d", probe); err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("a check that was ended: %v", err)
		}
		synctest.Wait()
	})
}
