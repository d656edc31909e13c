package notification_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"lockstep/destination/internal/counting"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/follow"
	"lockstep/destination/internal/inbox"
	"lockstep/destination/internal/notification"
	"lockstep/destination/internal/planner"
	"lockstep/destination/internal/push"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/selection"
	"lockstep/destination/internal/stage"
	"lockstep/destination/journal"
)

const (
	set   = "http://a.example/capabilitylist.xml"
	topic = "http://a.example/changes"
)

var start = time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)

// minute returns the time a number of minutes after the start, as documents write it.
func minute(n int) string { return start.Add(time.Duration(n) * time.Minute).Format(time.RFC3339) }

// message returns a notification of the changes between two minutes.
func message(from, until int, up string, changes ...string) *inbox.Message {
	body := fmt.Sprintf(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`+
		`<rs:md capability="change-notification" from=%q until=%q/><rs:ln rel="up" href=%q/>%s</urlset>`, minute(from), minute(until), up, strings.Join(changes, ""))
	return &inbox.Message{Topic: topic, Body: []byte(body)}
}

func change(kind, uri string, at int) string {
	return fmt.Sprintf(`<url><loc>%s</loc><rs:md change=%q datetime=%q/></url>`, uri, kind, minute(at))
}

// apply applies messages to a set that is in step up to the start. It returns the
// result and the URIs of the resources that were to be applied.
func apply(t *testing.T, j *journal.Mem, ms ...*inbox.Message) (out follow.Pushed, applied []string, warnings string) {
	t.Helper()
	selects, err := selection.New(selection.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	state, err := push.Load(t.Context(), j, 1)
	if err != nil {
		t.Fatal(err)
	}
	st := stage.New(j)
	t.Cleanup(func() { _ = st.Close(context.Background()) })
	of := &saved.Set{URI: set, Name: "a", Number: 1, Complete: true, Watermark: start}
	r := &entries.Reader{Selects: selects, Pushed: func() *push.State { return state }, Set: of, Stage: st,
		Warn: func(_, text string) { warnings += text + "\n" }}
	p := &notification.Pass{Set: of, State: state, Parents: &push.Parents{}, Journal: j, Reader: r, Stage: st, Report: &counting.Report{}, Stale: map[string]error{},
		NewPlanner:    func() *planner.Planner { return &planner.Planner{Journal: j, Selects: selects, Set: 1} },
		ApplyVersions: func(context.Context, push.Results) error { return nil },
		Apply: func(ctx context.Context, _ map[push.Key]bool, results push.Results) error {
			for w, err := range st.Resources(ctx) {
				if err != nil {
					return err
				}
				applied = append(applied, w.URI)
				results.Add(w.URI, push.Created)
			}
			return nil
		}}
	if out, err = p.Run(t.Context(), ms, start.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	return out, applied, warnings
}

// TestPassAppliesWhatContinues applies a notification that continues from the state of
// the set, and recognizes it when it is delivered again.
func TestPassAppliesWhatContinues(t *testing.T) {
	t.Parallel()
	j := &journal.Mem{}
	m := message(0, 2, set, change("created", "http://a.example/1", 1))
	out, applied, _ := apply(t, j, m)
	if len(applied) != 1 || out.Gaps != 0 || out.LookAgain != "" || out.Duplicates != 0 || len(out.Announced) != 1 {
		t.Fatalf("applied %q with %+v", applied, out)
	}
	if err := j.Record(t.Context(), journal.Batch{Save: out.Docs}); err != nil {
		t.Fatal(err)
	}
	if out, applied, _ = apply(t, j, m); len(applied) != 0 || out.Duplicates != 1 {
		t.Errorf("again: applied %q with %+v", applied, out)
	}
}

// TestPassPullsAfterAGap applies a notification that begins after the state of the set,
// and requests a pull (RN-RX-03).
func TestPassPullsAfterAGap(t *testing.T) {
	t.Parallel()
	out, applied, _ := apply(t, &journal.Mem{}, message(5, 6, set, change("created", "http://a.example/1", 6)))
	if len(applied) != 1 || out.Gaps != 1 || out.LookAgain == "" {
		t.Errorf("applied %q with %+v", applied, out)
	}
}

// TestPassPutsAsideWhatIsNotOfTheSet applies nothing of notifications that are malformed
// (RN-RX-09) or belong to another set (RN-RX-07), and nothing on hosts that the Source
// may not name (WS-SEC-08).
func TestPassPutsAsideWhatIsNotOfTheSet(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		m     *inbox.Message
		aside int
		warns string
	}{
		{"malformed", &inbox.Message{Topic: topic, Body: []byte("<urlset>")}, 1, "RN-RX-09"},
		{"of another set", message(0, 2, "http://b.example/capabilitylist.xml", change("created", "http://a.example/1", 1)), 1, "RN-RX-07"},
		{"of a foreign host", message(0, 2, set, change("created", "http://b.example/1", 1)), 0, "RS-SEC-01"},
	} {
		out, applied, warnings := apply(t, &journal.Mem{}, tt.m)
		if len(applied) != 0 || len(out.Aside) != tt.aside || !strings.Contains(warnings, tt.warns) {
			t.Errorf("%s: applied %q with %+v and the warnings %q", tt.name, applied, out, warnings)
		}
	}
}
