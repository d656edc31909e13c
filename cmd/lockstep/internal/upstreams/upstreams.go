// Package upstreams shows operators the Sources that a process follows: as JSON and as
// metrics of the process, and as a table that another process prints.
package upstreams

import (
	"cmp"
	"encoding/json"
	"net/http"
	"sort"
	"strings"
	"time"

	"lockstep/aggregator"
	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/release"
	"lockstep/destination"
	"lockstep/internal/fetch/shown"
)

// Path is where the upstreams are served, below the pages of a process.
const Path = "upstreams"

// A Process describes a process that follows Sources.
type Process struct {
	Version     string    `json:"version,omitempty"`
	At          time.Time `json:"at"`                    // when it was asked
	Kind        string    `json:"kind"`                  // [Serve] or [Follow]
	BaseURL     string    `json:"base_url,omitempty"`    // of the Source that serve runs
	Sets        int       `json:"sets"`                  // that are published or followed
	Destination string    `json:"destination,omitempty"` // of the mirror that follow runs
	Mirrors     int       `json:"mirrors,omitempty"`     // that follow --config runs
	Standby     string    `json:"standby,omitempty"`     // which process publishes in place of this one, which serves what that has published
	Published   time.Time `json:"published,omitzero"`    // when the documents of the Source were last published
	Origins     []Row     `json:"origins,omitempty"`     // of sets that other Sources do not fill; State is that of reading them
}

// StatePublished is the state of a set that no other Source fills, and whose origin can be
// read.
const StatePublished aggregator.State = "published"

// Kinds of processes.
const (
	Serve  = "serve"
	Follow = "follow"
)

// A Row is what is known of one upstream. Times are those of the process's clock; those
// that are not known are left out.
type Row struct {
	Mirror      string           `json:"mirror,omitempty"` // of several that follow runs
	Name        string           `json:"name"`             // within the set
	Set         string           `json:"set"`
	URL         string           `json:"url"` // without user and password
	State       aggregator.State `json:"state"`
	Channel     string           `json:"channel,omitempty"`      // hub, events or poll
	LastAttempt time.Time        `json:"last_attempt,omitzero"`  // when it was last read, or could not be
	LastSuccess time.Time        `json:"last_success,omitzero"`  // when the mirror was last known to be in step
	Age         *float64         `json:"age_seconds,omitempty"`  // since then
	LastChange  time.Time        `json:"last_change,omitzero"`   // when a change of it was last republished
	Error       string           `json:"error,omitempty"`        // of the last attempt
	Hint        string           `json:"hint,omitempty"`         // what to do about it
	Since       time.Time        `json:"failing_since,omitzero"` // when the first of the failed attempts ended
	Attempts    int              `json:"failed_attempts"`        // in a row
	Errors      int64            `json:"errors"`                 // attempts that failed since the process started
	Next        time.Time        `json:"next_attempt,omitzero"`
	Interval    float64          `json:"interval_seconds,omitempty"`  // between attempts, at present
	Resources   *int64           `json:"resources,omitempty"`         // that are republished; follow does not count those of a mirror
	Failed      int              `json:"failed_resources"`            // could not be fetched or verified in the last attempt
	Pending     int64            `json:"pending"`                     // resources, changes or notifications that are still to be processed
	Unconfirmed int64            `json:"pending_deletions,omitempty"` // of them: deletions that the Source has notified, and not confirmed
	Unproven    []string         `json:"unproven,omitempty"`          // why the mirror is not known to be complete, and what closes that
}

// Label returns what distinguishes the upstream from all others of the process.
func (r *Row) Label() string {
	if r.Mirror != "" {
		return r.Mirror + "/" + r.Set
	}
	if r.Name == "" || r.Name == r.Set {
		return r.Set
	}
	return r.Set + "/" + r.Name
}

// Failures returns a line for each of the upstreams that cannot be read, "" if all can.
func Failures(rows []Row) string {
	var b strings.Builder
	for i := range rows {
		if r := &rows[i]; r.State == aggregator.StateFailing {
			b.WriteString(r.Label() + ": " + r.Error + "\n")
		}
	}
	return b.String()
}

// FromFleet returns rows of what is known of the upstreams of a fleet, ordered by set
// and name. setOf returns the name of the set that a Capability List belongs to, and
// whether there is one.
func FromFleet(all []aggregator.Status, setOf func(list string) (string, bool), now time.Time) []Row {
	rows := make([]Row, 0, len(all))
	for i := range all {
		s := &all[i]
		set, ok := setOf(s.Set)
		if !ok {
			continue // it is being taken out
		}
		r := Row{
			Name: s.Name, Set: set, URL: s.URL, State: s.State, Channel: s.Channel, LastAttempt: s.LastAttempt, LastSuccess: s.LastSuccess, LastChange: s.LastChange,
			Error: Sentence(s.Error), Hint: Sentence(s.Hint), Since: s.FailingSince, Attempts: s.Attempts, Errors: s.Errors, Next: s.NextAttempt, Interval: s.Interval.Seconds(),
			Resources: &s.Resources, Failed: s.Failed, Pending: int64(s.Failed),
		}
		r.Age = AgeOf(r.LastSuccess, now)
		rows = append(rows, r)
	}
	sort.SliceStable(rows, func(i, j int) bool {
		return cmp.Or(cmp.Compare(rows[i].Set, rows[j].Set), cmp.Compare(rows[i].Name, rows[j].Name)) < 0
	})
	return rows
}

// FromFollower returns rows of the sets that a Follower follows, or one of the Source if
// it has not found any. hint says what to do about the last failure.
func FromFollower(f *destination.FollowStatus, source, hint string, now time.Time) []Row {
	rows := make([]Row, 0, len(f.Sets))
	for i := range f.Sets {
		s := &f.Sets[i]
		r := Row{
			Name: s.Name, Set: cmp.Or(s.Name, s.URI), URL: source, State: aggregator.StateFollowing, Channel: s.Channel, LastAttempt: s.Pulled, LastSuccess: s.InStep,
			Error: Sentence(cmp.Or(s.Refused, s.Error, f.Error)), Hint: s.Hint, Since: s.FailingSince, Attempts: max(s.Attempts, f.Attempts), Next: s.NextPull,
			Interval: s.Interval.Seconds(), Pending: int64(s.Waiting) + s.Pending,
			Unconfirmed: s.Pending, Unproven: reasons(s.Unproven),
		}
		if s.Pending > 0 && len(r.Unproven) == 0 { // the next look says it
			r.Unproven = []string{Sentence("set " + r.Set + ": the Source has not confirmed deletions that it notified: what was to be deleted may be gone there")}
		}
		if r.Since.IsZero() {
			r.Since = f.FailingSince
		}
		r.settle()
		r.Age = AgeOf(r.LastSuccess, now)
		rows = append(rows, r)
	}
	if len(rows) == 0 {
		r := Row{Name: source, Set: source, URL: source, Error: Sentence(f.Error), Since: f.FailingSince, Attempts: f.Attempts, Next: f.NextLook}
		r.settle()
		rows = append(rows, r)
	}
	rows[0].Unproven = append(reasons(f.Unproven), rows[0].Unproven...)
	for i := range rows {
		if rows[i].Error != "" {
			rows[i].Hint = Sentence(cmp.Or(rows[i].Hint, f.Hint, hint))
		}
	}
	return rows
}

// reasons returns why a mirror is not known to be complete, besides failures.
func reasons(all []destination.Unproven) (texts []string) {
	for i := range all {
		if u := &all[i]; !u.IsFailure() {
			texts = append(texts, Sentence(u.String()))
		}
	}
	return texts
}

// settle determines the state.
func (r *Row) settle() {
	switch {
	case r.Error != "":
		r.State = aggregator.StateFailing
	case r.LastSuccess.IsZero():
		r.State = aggregator.StateStarting
	}
}

// AgeOf returns the seconds since a time; nil if it is zero.
func AgeOf(t, now time.Time) *float64 {
	if t.IsZero() {
		return nil
	}
	age := max(now.Sub(t), 0).Truncate(time.Millisecond).Seconds()
	return &age
}

// Sentence returns an error on one line.
func Sentence(text string) string {
	return strings.Join(strings.FieldsFunc(shown.WithoutSecrets(text), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// Handler serves what look returns as one JSON object, one upstream a line.
func Handler(look func(now time.Time) (Process, []Row)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD are allowed", http.StatusMethodNotAllowed)
			return
		}
		now := time.Now().UTC().Truncate(time.Millisecond)
		p, rows := look(now)
		p.Version, p.At = release.Version(), now
		w.Header().Set("Content-Type", "application/json")
		head, err := json.Marshal(p)
		if err != nil {
			http.Error(w, "cannot describe the process", http.StatusInternalServerError) // unreachable
			return
		}
		_, _ = w.Write(append(head[:len(head)-1], `,"upstreams":[`...)) // a client that has disconnected needs no answer
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		separator := "\n"
		for i := range rows {
			_, _ = w.Write([]byte(separator))
			if enc.Encode(&rows[i]) != nil {
				return
			}
			separator = ","
		}
		_, _ = w.Write([]byte("]}\n"))
	})
}

// maxLabels is how many upstreams have figures of their own: labels have few values.
const maxLabels = 1000

// Figures writes the metrics of upstreams.
func Figures(out *admin.Figures, rows []Row) {
	states := []aggregator.State{aggregator.StateStarting, aggregator.StateFollowing, aggregator.StateWaiting, aggregator.StateFailing, aggregator.StateStopped}
	count := map[aggregator.State]int{}
	for i := range rows {
		count[rows[i].State]++
	}
	for _, state := range states {
		out.Gauge("lockstep_upstreams", "Upstreams, by state.", float64(count[state]), "state", string(state))
	}
	for i := range rows[:min(len(rows), maxLabels)] {
		r := &rows[i]
		labels := []string{"set", r.Set, "upstream", r.Name}
		out.Gauge("lockstep_upstream_failing", "1 while the last attempt to read the upstream failed.", admin.Truth(r.State == aggregator.StateFailing), labels...)
		out.Gauge("lockstep_upstream_resources", "Resources of the upstream that are republished.", float64(*r.Resources), labels...)
		out.Gauge("lockstep_upstream_failed_resources", "Resources that could not be fetched or verified in the last attempt.", float64(r.Failed), labels...)
		out.Counter("lockstep_upstream_errors_total", "Attempts to read the upstream that failed.", float64(r.Errors), labels...)
		if r.Age != nil {
			out.Gauge("lockstep_upstream_age_seconds", "Time since the mirror of the upstream was last known to be in step.", *r.Age, labels...)
		}
		if !r.Next.IsZero() {
			out.Gauge("lockstep_upstream_next_attempt_timestamp_seconds", "When the upstream is read next, unless it sends a notification before.", float64(r.Next.UnixMilli())/1e3, labels...)
		}
	}
}
