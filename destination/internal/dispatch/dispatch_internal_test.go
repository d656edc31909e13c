package dispatch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// An action is what these tests dispatch.
type action struct{ URI string }

// offer dispatches actions in rounds, as the applier does with those of a plan.
func offer(ctx context.Context, d *Dispatcher[action], hosts []string, each int) {
	for round := 1; round == 1 || d.NextRound(ctx); round++ {
		for _, host := range hosts {
			for i := range each {
				uri := fmt.Sprintf("http://%s/%06d", host, i)
				if !d.Leaves(uri, round) {
					d.Put(ctx, uri, &action{URI: uri}, true)
				}
			}
		}
	}
	d.Wait()
}

// A slow host does not delay transfers from others, however many of its own are
// queued, and everything is done once, in order.
func TestDispatchSlowHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const each, jobs = 3 * hostQueue, 4
		start := time.Now()
		var mu sync.Mutex
		begun, most := map[string]int{}, map[string]int{}
		took := map[string]time.Duration{}
		d := New(jobs, func(a *action) error {
			host := HostOf(a.URI)
			mu.Lock()
			begun[host]++
			most[host]++
			if most[host] > jobs {
				t.Errorf("%d at a time of %s, want %d", most[host], host, jobs)
			}
			mu.Unlock()
			switch host {
			case "a.example":
				time.Sleep(time.Minute)
			case "b.example":
				time.Sleep(40 * time.Second)
			default:
				time.Sleep(time.Millisecond)
			}
			mu.Lock()
			most[host]--
			took[host] = time.Since(start)
			mu.Unlock()
			return nil
		}, func(a *action, err error) { t.Errorf("%s: %v", a.URI, err) })
		offer(t.Context(), d, []string{"a.example", "b.example", "c.example"}, each)
		for host, n := range begun {
			if n != each {
				t.Errorf("%d of %s were done, want %d", n, host, each)
			}
		}
		if len(begun) != 3 || took["c.example"] > time.Minute {
			t.Errorf("the fast host took %v beside slow ones", took["c.example"])
		}
		if want := each / jobs * time.Minute; took["a.example"] > want+want/10 {
			t.Errorf("the slow host took %v, want about %v", took["a.example"], want)
		}
		if len(d.lanes) > 2 || d.queued != 0 || d.workers != 0 {
			t.Errorf("left over: %d lanes, %d actions, %d workers", len(d.lanes), d.queued, d.workers)
		}
	})
}

// After a host has not answered, its other transfers are not tried, unless it comes
// back in time.
func TestDispatchDeadHost(t *testing.T) {
	t.Parallel()
	for _, back := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			silence := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
			start := time.Now()
			var mu sync.Mutex
			tried, failed := 0, 0
			d := New(8, func(*action) error {
				mu.Lock()
				tried++
				mu.Unlock()
				time.Sleep(3 * time.Second)
				if back && time.Since(start) > deadAfter/2 {
					return nil
				}
				return silence
			}, func(_ *action, err error) {
				if !errors.Is(err, silence) {
					t.Errorf("failed with %v", err)
				}
				mu.Lock()
				failed++
				mu.Unlock()
			})
			offer(t.Context(), d, []string{"a.example"}, 1000)
			if tried+failed != 1000 || back != (failed == 0) || !back && tried > 200 {
				t.Errorf("back %v: %d tried, %d failed", back, tried, failed)
			}
		})
	}
}

// A dispatcher releases everything when its context ends.
func TestDispatchCanceled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		d := New(4, func(*action) error {
			<-ctx.Done()
			return ctx.Err()
		}, func(*action, error) {})
		time.AfterFunc(5*time.Second, cancel)
		offer(ctx, d, []string{"a.example", "b.example"}, 2*hostQueue)
		if d.workers != 0 {
			t.Errorf("%d workers left", d.workers)
		}
	})
}
