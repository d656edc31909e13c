package faultclock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/faultclock"
)

func TestStepsMoveTheWallClockOnly(t *testing.T) {
	t.Parallel()
	testSteps(t)
	synctest.Test(t, testSteps)
}

func testSteps(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour, -24 * time.Hour} {
		c := faultclock.Running()
		before := c.Now()
		c.Step(step)
		time.Sleep(time.Millisecond)
		after := c.Now()
		if d := after.Sub(before); d < time.Millisecond || d > time.Minute {
			t.Errorf("after a step of %s, the interval is %s", step, d)
		}
		if d := after.Round(0).Sub(before.Round(0)) - step; d < time.Millisecond || d > time.Minute {
			t.Errorf("after a step of %s, the wall clock moved by %s more", step, d)
		}
	}
}

func TestAClockStandsStillUntilItIsMoved(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 1, 2, 0, 0, 0, time.UTC)
	c := faultclock.New(at)
	c.Step(-time.Hour)
	c.Step(time.Minute)
	if got, want := c.Now(), at.Add(-59*time.Minute); got != want {
		t.Errorf("Now = %s, want %s", got, want)
	}
	if c.Set(at); c.Now() != at {
		t.Errorf("Now = %s, want %s", c.Now(), at)
	}
}
