package report

import (
	"fmt"
	"lockstep/destination"
	"testing"
	"time"
)

// TestFollowTally sums up passes, and does not grow with them.
func TestFollowTally(t *testing.T) {
	t.Parallel()
	var tally Tally
	until := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for i := range 1000 {
		r := destination.Report{
			Source: "s", Sets: []string{"u"}, Mode: destination.ModeIncremental, Via: destination.ViaNotification,
			Created: 1, Bytes: 10, Requests: 2, Elapsed: 0.5, SyncedUntil: until.Add(time.Duration(i) * time.Second),
			By:       destination.By{Request: 1},
			BySet:    []destination.SetReport{{URI: "u", Name: "n", Created: 1, Error: fmt.Sprint(i)}},
			Failures: []destination.Failure{{URI: "u", Cause: fmt.Sprint(i)}}, Warnings: []string{fmt.Sprint(i)},
		}
		var err error
		if i == 0 {
			r.Mode, r.Via = destination.ModeBaseline, destination.ViaList
		}
		if i%10 == 0 {
			err = destination.ErrIncomplete
		}
		tally.Add(&r, err)
	}
	c := tally.Copy()
	if c.Passes != 1000 || c.Failing != 100 || c.Created != 1000 || c.Bytes != 10_000 || c.Requests != 2000 || c.By.Request != 1000 || c.Elapsed != 500 {
		t.Errorf("sums: %+v", c)
	}
	if c.Mode != destination.ModeBaseline || c.Via != destination.ViaList || !c.SyncedUntil.Equal(until.Add(999*time.Second)) {
		t.Errorf("mode %s via %s until %s, want those of the greatest effort, and the latest time", c.Mode, c.Via, c.SyncedUntil)
	}
	if len(c.BySet) != 1 || c.BySet[0].Created != 1000 || c.BySet[0].Error != "999" {
		t.Errorf("by set: %+v", c.BySet)
	}
	if len(c.Failures) != mostKept || c.Failures[mostKept-1].Cause != "999" || len(c.Warnings) != mostKept {
		t.Errorf("%d failures, %d warnings, want the newest %d", len(c.Failures), len(c.Warnings), mostKept)
	}
	if c.BySet[0].Created++; tally.BySet[0].Created != 1000 {
		t.Error("a copy shares what it holds")
	}
	for i := range MostSets + 10 {
		tally.Add(&destination.Report{BySet: []destination.SetReport{{URI: fmt.Sprint(i)}}}, nil)
	}
	if n := len(tally.BySet); n != MostSets {
		t.Errorf("%d sets are reported, want the newest %d", n, MostSets)
	}
}
