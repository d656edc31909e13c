package ondemand_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/ondemand"
)

// TestValue: it exists while it is used and for some time afterwards, and is created
// again for the next use.
func TestValue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		created := 0
		var dropped atomic.Int64 // a timer drops it
		v := ondemand.New(4*time.Second, func() *int {
			created++
			return new(created)
		}, func(n *int) { dropped.Store(int64(*n)) })
		for n := 1; n <= 2; n++ {
			if v.Now() != nil {
				t.Error("it exists before its use")
			}
			for range 2 {
				if got := *v.Use(); got != n {
					t.Errorf("use of number %d, want %d", got, n)
				}
			}
			v.Done()
			time.Sleep(time.Minute)
			if v.Now() == nil {
				t.Error("it was dropped while it was used")
			}
			v.Done()
			time.Sleep(2 * time.Second)
			v.Use()
			v.Done()
			time.Sleep(3 * time.Second)
			if v.Now() == nil {
				t.Error("it was dropped too early")
			}
			time.Sleep(3 * time.Second)
			if v.Now() != nil || dropped.Load() != int64(n) {
				t.Errorf("number %d was dropped last, want %d", dropped.Load(), n)
			}
		}
	})
}
