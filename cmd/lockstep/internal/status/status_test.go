package status

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/aggregator"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/cmd/lockstep/internal/upstreams"
	"lockstep/internal/lastrun"
	"lockstep/storage/sqlite"
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
		p.settle()
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
	p.settle()
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
	p.settle()
	if err := p.Check(); p.State != Failing || p.Summary != "serving http://x.org/: 2 sets, the hub of 1 not notified" || !errors.Is(err, ErrFailing) || err.Error() != "the notification of hubs is failing" {
		t.Errorf("%s: %s, %v", p.State, p.Summary, err)
	}
}

// TestHub: a hub shows the subscriptions that lack messages, which are not its failure.
func TestHub(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		switch r.URL.Path {
		case "/-/api/v1/hub":
			_, _ = io.WriteString(w, `{"url":"http://hub.example/","topics":2,"subscriptions":3,"behind":1,"waiting":1,"lag_max":7}`)
		case "/-/api/v1/hub/subscriptions":
			_, _ = io.WriteString(w, `{"subscriptions":[{"topic":"http://x.org/t","callback":"http://y.org","state":"waiting","lag":7,"attempts":3,"last_error":"refused","last_taken":"2026-05-01T12:00:00Z"}]}`)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	service, err := AtURL(s.URL, "secret", nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := service.Ask(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const want = "hub at http://hub.example/: 2 topics, 3 subscriptions, 1 behind by up to 7 messages, 1 failing"
	if p.Kind != "hub" || p.State != OK || p.Summary != want || p.Check() != nil {
		t.Errorf("%s %s: %s, %v", p.Kind, p.State, p.Summary, p.Check())
	}
	if text := printed(p); !strings.Contains(text, "\nhttp://x.org/t  http://y.org  failing  2026-") || !strings.Contains(text, "  7  refused\n") {
		t.Errorf("prints\n%s", text)
	}
	if other, err := AtURL(s.URL, "other", nil); err != nil {
		t.Error(err)
	} else if _, err := other.Ask(t.Context()); err == nil || !strings.Contains(err.Error(), "admin token") {
		t.Errorf("with another token: %v", err)
	}
}

// TestPublic: a service that is not ready, or cannot read a set, is not well.
func TestPublic(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]State{"ok\n": OK, "ok\nset main: its origin cannot be read since 2026-05-01T12:00:00Z\n": Failing, "the hub is loading\n": Starting} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/at/-/healthz":
				_, _ = io.WriteString(w, "ok\n")
			case r.URL.Path != "/at/-/readyz":
				http.NotFound(w, r)
			case want == Starting:
				http.Error(w, strings.TrimSpace(text), http.StatusServiceUnavailable)
			default:
				_, _ = io.WriteString(w, text)
			}
		}))
		service, err := AtURL(s.URL+"/at", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		p, err := service.AskPublic(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if p.State != want || (p.Check() == nil) != (want == OK) || want == Failing && !strings.Contains(printed(p), "\n  set main: its origin") {
			t.Errorf("%q: %s, %v\n%s", text, p.State, p.Check(), printed(p))
		}
		s.Close()
	}
}

// TestLookAtAll: of several mirrors, each is a line, also one that is not there.
func TestLookAtAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	places := []Place{{Name: "good", Source: "https://user:secret@a.org/", Dest: "good"}, {Name: "bad", Dest: "bad"}, {Dest: "missing"}}
	for i := range places {
		places[i].Dest = filepath.Join(dir, places[i].Dest)
	}
	for i, result := range []lastrun.Result{lastrun.InStep, lastrun.Refused} {
		state := filepath.Join(places[i].Dest, ".lockstep")
		if err := os.MkdirAll(state, 0o700); err != nil {
			t.Fatal(err)
		}
		db, err := sqlite.Open(filepath.Join(state, "state.db"))
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		run := lastrun.Run{Source: "https://b.org/", Result: result, Ended: time.Now()}
		if result != lastrun.InStep {
			run.Error, run.Hint = "would delete too much", "consent"
		}
		if err := lastrun.Record(state, run); err != nil {
			t.Fatal(err)
		}
	}
	all := LookAtAll(t.Context(), places)
	if err := all.Check(); all.State != Failing || all.Summary != "3 mirrors: 1 in step, 2 failing; 0 pending" || err == nil || err.Error() != "2 of 3 mirrors are failing" {
		t.Errorf("%s: %s, %v", all.State, all.Summary, err)
	}
	text := printed(all)
	for _, want := range []string{"\ngood ", "in step", "\nbad ", "would delete too much", "there is no mirror", "\nhint: consent\n"} {
		if !strings.Contains(text, want) || strings.Contains(text, "secret") {
			t.Errorf("no %q, or a secret, in\n%s", want, text)
		}
	}
	if m := all.Mirrors[0]; m.Source != "https://a.org/" || m.Name != "good" || m.State != OK || !strings.HasPrefix(m.Summary, "in step with https://a.org/ as of 0 s ago") {
		t.Errorf("the first: %+v", m)
	}
	if one := LookAtAll(t.Context(), places[:1]); one.Check() != nil || one.Summary != "1 mirror: 1 in step; 0 pending" {
		t.Errorf("one: %s, %v", one.Summary, one.Check())
	}
}
