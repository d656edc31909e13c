package sourcefigures

import (
	"errors"
	"strings"
	"testing"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/intake"
)

// TestOriginDown: an origin that cannot be read shows in figures and in the
// details of readiness, and so does that it can be read again.
func TestOriginDown(t *testing.T) {
	t.Parallel()
	var u Origins
	scanned := func(set string, err error) string {
		return u.Note(set, &intake.Event{Kind: intake.EventScanned, Err: err})
	}
	down := errors.New("status 503")
	for range 2 {
		if s := scanned("maps", down); s != "" {
			t.Errorf("a failure is said to be a recovery: %s", s)
		}
	}
	if s := scanned("other", nil); s != "" {
		t.Errorf("the first scan is said to be a recovery: %s", s)
	}
	if d := u.Detail(); !strings.HasPrefix(d, "set maps: its origin cannot be read since 2") || strings.Contains(d, "other") {
		t.Errorf("detail %q", d)
	}
	if p := u.ProblemOf(func(set string) bool { return set == "maps" }); !strings.HasPrefix(p, "set maps: its origin cannot be read since 2") || !strings.HasSuffix(p, ": status 503\n") || strings.Contains(u.Detail(), "503") {
		t.Errorf("problem %q", p)
	}
	m := admin.NewMetrics()
	m.Register(u.Figures)
	if s := scanned("maps", nil); !strings.Contains(s, "set maps: its origin can be read again") {
		t.Errorf("note %q", s)
	}
	if d := u.Detail(); d != "" {
		t.Errorf("detail %q", d)
	}
}
