package sourcefigures

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/intake"
)

// A refusal to empty a set shows behind the ok of /-/readyz until it is over, and
// is said with growing intervals; another failure is said at once.
func TestRefusedEmptyingIsShownAndSaidLessAndLess(t *testing.T) {
	t.Parallel()
	var u Origins
	refused := intake.Event{Kind: intake.EventScanned, Err: &intake.EmptyError{Root: "files", Resources: 3}}
	start := time.Now()
	said := 0
	for at := start; at.Before(start.Add(24 * time.Hour)); at = at.Add(time.Minute) {
		u.Note("main", &refused)
		if !u.IsRepeated("main", &refused, at) {
			said++
		}
	}
	if said < 20 || said > 32 {
		t.Errorf("said %d times in a day, want about once an hour", said)
	}
	if d := u.Detail(); !strings.Contains(d, "set main: left as it is since ") || !strings.Contains(d, "--allow-empty") {
		t.Errorf("detail %q", d)
	}
	failed := intake.Event{Kind: intake.EventScanned, Err: errors.New("no such directory")}
	u.Note("main", &failed)
	if u.IsRepeated("main", &failed, start) || !strings.Contains(u.Detail(), "cannot be read") {
		t.Errorf("another failure is not told: %q", u.Detail())
	}
	well := intake.Event{Kind: intake.EventScanned}
	u.Note("main", &well)
	u.Note("main", &refused)
	if u.IsRepeated("main", &refused, start) {
		t.Error("a new refusal is not said")
	}
}

// An origin that cannot be read is warned of at once, after a minute, and then at
// growing intervals of up to an hour; another cause, and a failure after a success, are
// warned of at once.
func TestWarningsOfAnOriginThatFailsAreRepeatedLessAndLess(t *testing.T) {
	t.Parallel()
	var u Origins
	failed := func(cause string, at time.Time) (warned bool) {
		e := intake.Event{Kind: intake.EventScanned, Err: errors.New(cause)}
		u.Note("main", &e)
		return !u.IsRepeated("main", &e, at)
	}
	start := time.Now()
	var warnings []time.Duration
	for after := time.Duration(0); after <= 5*time.Hour; after += time.Second {
		if failed("connection refused", start.Add(after)) {
			warnings = append(warnings, after/time.Minute)
		}
	}
	if want := []time.Duration{0, 1, 3, 7, 15, 31, 63, 123, 183, 243}; !slices.Equal(warnings, want) {
		t.Errorf("warned after %d minutes, want %d", warnings, want)
	}
	at := start.Add(5 * time.Hour)
	if !failed("status 503", at) || failed("status 503", at.Add(59*time.Second)) || !failed("status 503", at.Add(time.Minute)) {
		t.Error("another cause is not warned of at once, and again after a minute")
	}
	u.Note("main", &intake.Event{Kind: intake.EventScanned})
	if !failed("status 503", at.Add(time.Minute)) {
		t.Error("a failure after a success is not warned of")
	}
}
