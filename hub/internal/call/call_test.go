package call

import (
	"context"
	"fmt"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/ratelimit"
)

func at(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestCallRate: after a burst, a host is called at a limited rate, whatever the
// port; other hosts are unaffected, and none starves.
func TestCallRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := New(100, 5, ratelimit.Rate{Burst: 10, Per: 2}, time.Now)
		ctx, cancel := context.WithCancel(t.Context())
		go c.Run(ctx)
		var one, two, other atomic.Int64
		count := func(n *atomic.Int64) func(context.Context) { return func(context.Context) { n.Add(1) } }
		for range 1000 {
			c.Add(at(t, "http://a.example:1/"), Unknown, time.Time{}, count(&one))
		}
		for range 10 {
			c.Add(at(t, "http://A.example.:2/"), Unknown, time.Time{}, count(&two))
		}
		c.Add(at(t, "http://b.example/"), Unknown, time.Time{}, count(&other))
		c.Add(at(t, "http://b.example/"), Unknown, time.Now().Add(time.Minute), count(&other))
		synctest.Wait()
		if a, b := one.Load()+two.Load(), other.Load(); a != 10 || b != 1 {
			t.Errorf("at once %d and %d calls, want 10 and 1", a, b)
		}
		time.Sleep(30*time.Second + time.Millisecond)
		synctest.Wait()
		if a := one.Load() + two.Load(); a < 68 || a > 71 {
			t.Errorf("after 30 s %d calls, want about 70", a)
		}
		if b := two.Load(); b != 10 {
			t.Errorf("of the other port %d were carried out, want all 10", b)
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if b := other.Load(); b != 2 {
			t.Errorf("%d calls at the other host, want 2", b)
		}
		cancel()
		synctest.Wait()
	})
}

// TestCallConcurrency: few calls are under way at one host and port, while
// others continue.
func TestCallConcurrency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := New(9, 3, ratelimit.Rate{Burst: 1000, Per: 1000}, time.Now)
		ctx, cancel := context.WithCancel(t.Context())
		go c.Run(ctx)
		var slow, quick, most atomic.Int64
		for range 20 {
			c.Add(at(t, "http://a.example/"), Unknown, time.Time{}, func(ctx context.Context) {
				most.Store(max(most.Load(), slow.Add(1)))
				defer slow.Add(-1)
				select {
				case <-ctx.Done():
				case <-time.After(time.Minute):
				}
			})
		}
		for range 20 {
			c.Add(at(t, "http://a.example:81/"), Unknown, time.Time{}, func(context.Context) { quick.Add(1) })
		}
		synctest.Wait()
		if s, q := most.Load(), quick.Load(); s != 3 || q != 20 {
			t.Errorf("%d slow ones under way, %d quick ones done, want 3 and 20", s, q)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if most.Load() != 3 || slow.Load() != 0 || len(c.hosts) != 0 {
			t.Errorf("%d under way at most, %d still, %d hosts remembered, want 3, none and none", most.Load(), slow.Load(), len(c.hosts))
		}
		cancel()
		synctest.Wait()
	})
}

// TestCallReserve: however many unknown hosts never answer, known ones are called
// at once, even through a lane in which unknown calls wait.
func TestCallReserve(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := New(64, 4, ratelimit.Rate{Burst: 1000, Per: 1000}, time.Now)
		ctx, cancel := context.WithCancel(t.Context())
		go c.Run(ctx)
		hang := func(ctx context.Context) {
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Second):
			}
		}
		for i := range 1000 {
			c.Add(at(t, fmt.Sprintf("http://h%d.example/", i)), Unknown, time.Time{}, hang)
		}
		synctest.Wait()
		var done atomic.Int64
		for i := range 20 {
			c.Add(at(t, fmt.Sprintf("http://h%d.example/", 980+i)), Known, time.Time{}, func(context.Context) { done.Add(1) })
		}
		synctest.Wait()
		if n := done.Load(); n != 20 {
			t.Errorf("%d known ones are done, want all 20", n)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := len(c.hosts) + c.active + len(c.ready[Known]) + len(c.ready[Unknown]) + len(c.delayed); n != 0 {
			t.Errorf("%d things are left of it, want none", n)
		}
		cancel()
		synctest.Wait()
	})
}
