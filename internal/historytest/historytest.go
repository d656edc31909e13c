// Package historytest runs random histories in tests. All that a history draws follows
// from its seed, so that one that fails can be repeated.
//
//	historytest.Run(t, 200, 0, 4, func(h *historytest.History) { … })
package historytest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

// A History is a subtest that draws what happens in it, and remembers that in case it
// fails. Only Tracef, Fatalf and Must may be called by several goroutines.
type History struct {
	*testing.T
	*rand.Rand
	Seed uint64

	mu    sync.Mutex // guards trace
	trace []string
}

// Run runs n histories, some at a time, until one fails; or only the one with the seed, if
// that is not 0.
func Run(t *testing.T, n int, seed uint64, atATime int, live func(h *History)) {
	t.Helper()
	one := func(seed uint64) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			live(&History{T: t, Rand: rand.New(rand.NewPCG(seed, 15)), Seed: seed})
		})
	}
	if seed != 0 {
		one(seed)
		return
	}
	var work sync.WaitGroup
	seeds := make(chan uint64)
	for range atATime {
		work.Go(func() {
			for seed := range seeds {
				if !t.Failed() {
					one(seed)
				}
			}
		})
	}
	for range n {
		seeds <- rand.Uint64()
	}
	close(seeds)
	work.Wait()
}

// Tracef remembers an event.
func (h *History) Tracef(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trace = append(h.trace, fmt.Sprintf(format, args...))
}

// Fatalf ends the history with its seed, all events, and a message.
func (h *History) Fatalf(format string, args ...any) {
	h.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.T.Fatalf("-history-seed %d\n%s\n%s", h.Seed, strings.Join(h.trace, "\n"), fmt.Sprintf(format, args...))
}

// Must ends the history if err is not nil.
func (h *History) Must(err error) {
	h.Helper()
	if err != nil {
		h.Fatalf("%v", err)
	}
}

// Once draws whether something happens, as it does once in n times.
func (h *History) Once(n int) bool { return h.IntN(n) == 0 }

// Pick draws one of several values.
func Pick[T any](h *History, of ...T) T { return of[h.IntN(len(of))] }
