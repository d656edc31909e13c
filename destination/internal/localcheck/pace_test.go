package localcheck_test

import (
	"testing"
	"time"

	"lockstep/destination/internal/localcheck"
)

// TestPace has some Followers look at their Sources every minute for two days. Each
// checks at once, and at least once a day; together they check for a twentieth of the
// time, and each as often as the others.
func TestPace(t *testing.T) {
	t.Parallel()
	const poll, days = time.Minute, 2
	for _, c := range []struct {
		followers   int
		took        time.Duration
		least, most int // checks of each
	}{
		{1, time.Millisecond, 2880, 2880},       // each time
		{1, 30 * time.Second, 262, 288},         // every ten minutes, or eleven
		{1000, 10 * time.Millisecond, 720, 865}, // every 200 s, or at the look after that
		{1000, time.Minute, 3, 3},               // once a day, although that is more than a twentieth
	} {
		budget := new(localcheck.Budget)
		paces, checks := make([]localcheck.Pace, c.followers), make([]int, c.followers)
		for i := range paces {
			paces[i] = localcheck.NewPace(budget)
		}
		begin := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		for now := begin; now.Before(begin.AddDate(0, 0, days)); now = now.Add(poll) {
			for i := range paces {
				if at := now.Add(poll * time.Duration(i) / time.Duration(c.followers)); paces[i].IsDue(at, poll) {
					paces[i].Done(at, at.Add(c.took))
					checks[i]++
				}
			}
		}
		for i, n := range checks {
			if n < c.least || n > c.most {
				t.Errorf("%d Followers, %v each: number %d checked %d times, not %d to %d", c.followers, c.took, i, n, c.least, c.most)
				break
			}
		}
	}
}

// TestPaceOfThoseThatAreLeft: one that has left costs the others nothing.
func TestPaceOfThoseThatAreLeft(t *testing.T) {
	t.Parallel()
	budget := new(localcheck.Budget)
	slow, quick := localcheck.NewPace(budget), localcheck.NewPace(budget)
	now := time.Now()
	slow.Done(now, now.Add(time.Minute))
	quick.Done(now, now.Add(time.Second))
	if quick.IsDue(now.Add(20*time.Minute), time.Second) {
		t.Error("the check of the other one is not counted")
	}
	slow.Leave()
	if !quick.IsDue(now.Add(20*time.Second), time.Second) || quick.IsDue(now.Add(19*time.Second), time.Second) {
		t.Error("the check of one that has left is counted")
	}
	if !slow.IsDue(now, time.Second) {
		t.Error("no check after it has come back")
	}
}
