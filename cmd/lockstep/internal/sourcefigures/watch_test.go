package sourcefigures

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/intake"
	"lockstep/internal/sleep"
)

// A watched origin that stays down is tried again at least once a minute, and warned
// of again and again, at growing intervals of up to an hour; the first scan that
// succeeds is noted.
func TestWatchedOriginThatStaysDownIsWarnedOfAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		start, up := time.Now(), 5*time.Hour
		var u Origins
		var warnings []int // minutes after the start
		var scans int
		recovered := ""
		origin := intake.Origin{Events: intake.Reporter{OnEvent: func(e intake.Event) {
			if s := u.Note("main", &e); s != "" {
				recovered = s
				cancel()
			}
			if e.Err != nil && !u.IsRepeated("main", &e, time.Now()) {
				warnings = append(warnings, int(time.Since(start)/time.Minute))
			}
		}}}
		scan := func(context.Context) (intake.Report, error) {
			scans++
			if time.Since(start) < up {
				return intake.Report{}, errors.New("connection refused")
			}
			return intake.Report{}, nil
		}
		due := func(ctx context.Context) error { return sleep.For(ctx, time.Second) }
		if err := origin.Watch(ctx, scan, due, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("Watch = %v", err)
		}
		if n := len(warnings); n < 9 || n > 11 || !slices.Equal(warnings[:2], []int{0, 1}) || warnings[n-1] < 4*60-5 {
			t.Errorf("warned after %d minutes, want at once, after one minute, and at least once an hour", warnings)
		}
		if late := time.Since(start) - up; scans < 5*55 || recovered == "" || late > 2*time.Minute {
			t.Errorf("%d scans, noted %q after %s", scans, recovered, late)
		}
	})
}
