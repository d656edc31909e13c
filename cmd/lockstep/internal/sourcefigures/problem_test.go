package sourcefigures

import (
	"errors"
	"testing"
	"time"

	"lockstep/source"
)

// TestProblem: a failure of a publication of everything is shown until one succeeds;
// that of urgent documents until either does.
func TestProblem(t *testing.T) {
	t.Parallel()
	const urgent, all = false, true
	failed := errors.New("no space left")
	var tally Tally
	for i, step := range []struct {
		all   bool
		err   error
		shown bool
	}{
		{urgent, nil, false}, {all, failed, true}, {urgent, nil, true}, {all, nil, false},
		{urgent, failed, true}, {urgent, nil, false}, {urgent, failed, true}, {all, nil, false},
	} {
		tally.Published(&source.Report{}, step.all, time.Now(), step.err)
		if got := tally.Problem(); (got != "") != step.shown {
			t.Errorf("step %d: Problem = %q, want one: %t", i, got, step.shown)
		}
	}
}
