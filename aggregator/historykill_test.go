package aggregator_test

import (
	"context"
	"flag"
	"fmt"
	"testing"

	"lockstep/blob"
	"lockstep/blob/faultfs"
	"lockstep/destination/journal"
	"lockstep/internal/historytest"
)

// killStep is what a release is tested with 1 of.
var killStep = flag.Int("kill-step", 11, "TestKilledAtEachWrite kills at one of so many writes")

// TestKilledAtEachWrite kills an Aggregator, or cuts its power, at each of the writes by
// which it passes changes on: of files, of the Journal, of the catalog, and of documents.
// While its upstreams are down, all that it publishes then can be mirrored; when they are
// back, one pass brings it in step.
func TestKilledAtEachWrite(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name           string
		upstreams      int
		apart, inPlace bool
	}{
		{"one upstream", 1, false, false},
		{"two upstreams apart", 2, true, false},
		{"two upstreams at the same addresses", 2, false, false},
		{"descriptions only", 1, false, true},
	} {
		for _, mode := range []faultfs.Mode{faultfs.Killed, faultfs.PowerCut} {
			t.Run(fmt.Sprintf("%s, mode %d", tt.name, mode), func(t *testing.T) {
				t.Parallel()
				historytest.Run(t, 1, *historySeed, 1, func(run *historytest.History) {
					h := &history{History: run, now: map[string]string{}, did: map[string]int{}, origins: tt.upstreams}
					for range tt.upstreams {
						h.nodes = append(h.nodes, newNode(h, 0))
					}
					n := newNode(h, 1)
					n.alone, n.apart, n.onDisk = tt.upstreams == 1, tt.apart, false
					if tt.inPlace {
						n.describe()
					}
					for _, origin := range h.nodes {
						n.follow(origin)
					}
					h.nodes = append(h.nodes, n)
					h.last = &feed{from: n, store: &blob.Mem{}, journal: &journal.Mem{}}
					for _, n := range h.nodes {
						n.start()
					}
					h.keep()
					h.change(10)
					h.settle(t.Context())
					for at := 1 + h.IntN(*killStep); h.killAt(t.Context(), n, at, mode); at += *killStep {
					}
				})
			})
		}
	}
}

// killAt kills a node at a write with which it passes changes on. It returns false if the
// node needs fewer.
func (h *history) killAt(ctx context.Context, n *node, at int, mode faultfs.Mode) bool {
	h.Tracef("killed at write %d", at)
	h.change(4)
	for _, origin := range h.nodes[:h.origins] {
		_, err := origin.pass(ctx)
		h.Must(err)
	}
	n.faults.Arm(at, mode)
	_, _ = n.pass(ctx) // it is expected to fail
	if !n.dead() {
		return false
	}
	n.revive()
	for _, origin := range h.nodes[:h.origins] {
		origin.stop()
	}
	_, _ = n.pass(ctx) // the upstreams are down
	if !n.inPlace {
		_, err := h.mirror(ctx)
		h.Must(err)
	}
	h.settle(ctx)
	n.check(ctx)
	h.same(ctx)
	h.quiet(ctx)
	return true
}
