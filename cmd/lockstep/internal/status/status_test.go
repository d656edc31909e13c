package status

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/cmd/lockstep/internal/health"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/lastrun"
	"lockstep/internal/note"
	"lockstep/storage/sqlite"
)

// printed returns what a result prints.
func printed(r health.Result) string {
	var out bytes.Buffer
	r.Print(term.IO{Out: &out, Err: io.Discard})
	return out.String()
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
	if p.Kind != "hub" || p.State != health.OK || p.Summary != want || p.Check() != nil {
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
	for text, want := range map[string]health.State{"ok\n": health.OK, "ok\nset main: its origin cannot be read since 2026-05-01T12:00:00Z\n": health.Failing, "the hub is loading\n": health.Starting} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/at/-/healthz":
				_, _ = io.WriteString(w, "ok\n")
			case r.URL.Path != "/at/-/readyz":
				http.NotFound(w, r)
			case want == health.Starting:
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
		if p.State != want || (p.Check() == nil) != (want == health.OK) || want == health.Failing && !strings.Contains(printed(p), "\n  set main: its origin") {
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
		if err := lastrun.Record(note.File(filepath.Join(state, lastrun.Name)), run); err != nil {
			t.Fatal(err)
		}
	}
	all := LookAtAll(t.Context(), places)
	if err := all.Check(); all.State != health.Failing || all.Summary != "3 mirrors: 1 in step, 2 failing; 0 pending" || err == nil || err.Error() != "2 of 3 mirrors are failing" {
		t.Errorf("%s: %s, %v", all.State, all.Summary, err)
	}
	text := printed(all)
	for _, want := range []string{"\ngood ", "in step", "\nbad ", "would delete too much", "there is no mirror", "\nhint: consent\n"} {
		if !strings.Contains(text, want) || strings.Contains(text, "secret") {
			t.Errorf("no %q, or a secret, in\n%s", want, text)
		}
	}
	if m := all.Mirrors[0]; m.Source != "https://a.org/" || m.Name != "good" || m.State != health.OK || !strings.HasPrefix(m.Summary, "in step with https://a.org/ as of 0 s ago") {
		t.Errorf("the first: %+v", m)
	}
	if one := LookAtAll(t.Context(), places[:1]); one.Check() != nil || one.Summary != "1 mirror: 1 in step; 0 pending" {
		t.Errorf("one: %s, %v", one.Summary, one.Check())
	}
}
