package sourcefigures

import (
	"errors"
	"strings"
	"testing"
	"time"

	"lockstep/intake"
)

// A refusal to empty a set shows behind the ok of /-/readyz until it is over, and
// is said with growing intervals; other failures are said each time.
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
