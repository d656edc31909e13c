package health

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"lockstep/aggregator"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/cmd/lockstep/internal/upstreams"
)

// printed returns what a result prints.
func printed(r Result) string {
	var out bytes.Buffer
	r.Print(term.IO{Out: &out, Err: io.Discard})
	return out.String()
}

// TestFollowing: the sentence about a mirror that is followed is about the set that is furthest
// behind.
func TestFollowing(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	set := func(state aggregator.State, success, since time.Time, pending int64, err, hint string) upstreams.Row {
		return upstreams.Row{Name: "main", Set: "main", URL: "https://x.org/", State: state, LastSuccess: success, Since: since, Pending: pending, Error: err, Hint: hint}
	}
	for _, tt := range []struct {
		rows    []upstreams.Row
		state   State
		summary string
	}{
		{[]upstreams.Row{set(aggregator.StateFollowing, ago(12*time.Second), time.Time{}, 0, "", "")}, OK, "in step with https://x.org/ as of 12 s ago; 0 pending; following into m"},
		{[]upstreams.Row{set(aggregator.StateFollowing, ago(time.Second), time.Time{}, 1, "", ""), set(aggregator.StateFollowing, ago(time.Hour), time.Time{}, 2, "", "")},
			OK, "in step with https://x.org/ as of 60 min ago; 3 pending; following into m"},
		{[]upstreams.Row{set(aggregator.StateFollowing, ago(time.Second), time.Time{}, 0, "", ""), set(aggregator.StateFailing, ago(3*time.Hour), ago(10*time.Minute), 2, "down", "wait")},
			Failing, "not in step with https://x.org/: failing for 10 min; last in step 3 h ago; 2 pending; following into m"},
		{[]upstreams.Row{set(aggregator.StateFailing, time.Time{}, ago(5*time.Second), 0, "down", "")},
			Failing, "not in step with https://x.org/: failing for 5 s; it has never been in step, as far as is known; 0 pending; following into m"},
		{[]upstreams.Row{set(aggregator.StateStarting, time.Time{}, time.Time{}, 0, "", "")}, Starting, "not yet in step with https://x.org/; following into m"},
	} {
		p := &Process{Process: upstreams.Process{Kind: upstreams.Follow, Destination: "m", At: now}, Upstreams: tt.rows}
		p.Settle()
		if p.State != tt.state || p.Summary != tt.summary {
			t.Errorf("%s: %q, want %s: %q", p.State, p.Summary, tt.state, tt.summary)
		}
		if err := p.Check(); (err == nil) != (tt.state == OK) {
			t.Errorf("%q: Check = %v", p.Summary, err)
		}
		text := printed(p)
		if !strings.HasPrefix(text, tt.summary+"\n\nSET ") || strings.Contains(text, "hint: wait\n") != (len(tt.rows) == 2 && tt.state == Failing) {
			t.Errorf("prints\n%s", text)
		}
	}
}

// TestServing: the origins of sets count as upstreams do.
func TestServing(t *testing.T) {
	t.Parallel()
	five := int64(5)
	p := &Process{Process: upstreams.Process{Kind: upstreams.Serve, BaseURL: "http://x.org/", Sets: 2, Origins: []upstreams.Row{
		{Name: "a", Set: "a", State: upstreams.StatePublished, Resources: &five},
		{Name: "b", Set: "b", State: aggregator.StateFailing, Error: "no such directory", Hint: "mount it"},
	}}}
	p.Settle()
	if err := p.Check(); p.State != Failing || p.Summary != "serving http://x.org/: 2 sets, 1 failing" || !errors.Is(err, ErrFailing) || err.Error() != "1 of 2 sets is failing" {
		t.Errorf("%s: %s, %v", p.State, p.Summary, err)
	}
	if text := printed(p); !strings.Contains(text, "no such directory") || !strings.HasSuffix(text, "\nhint: mount it\n") {
		t.Errorf("prints\n%s", text)
	}
}

// TestUnnotified: a Source is not well if one of its hubs cannot be notified.
func TestUnnotified(t *testing.T) {
	t.Parallel()
	p := &Process{Process: upstreams.Process{Kind: upstreams.Serve, BaseURL: "http://x.org/", Sets: 2, Origins: []upstreams.Row{
		{Name: "a", Set: "a", State: upstreams.StatePublished},
		{Name: "b", Set: "b", State: upstreams.StatePublished, Error: "notify the hub http://h.org/: connection refused"},
	}}}
	p.Settle()
	if err := p.Check(); p.State != Failing || p.Summary != "serving http://x.org/: 2 sets; the hub of 1 set has not been notified" || !errors.Is(err, ErrFailing) || err.Error() != "the notification of hubs is failing" {
		t.Errorf("%s: %s, %v", p.State, p.Summary, err)
	}
}
