package dashboard

import (
	"cmp"
	"context"
	_ "embed"
	"net/http"
	"strings"
	"time"

	"lockstep/aggregator"
	"lockstep/cmd/lockstep/internal/health"
	"lockstep/cmd/lockstep/internal/recent"
	"lockstep/cmd/lockstep/internal/release"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/cmd/lockstep/internal/upstreams"
	"lockstep/hub/status"
	"lockstep/internal/fetch"
	"lockstep/internal/webpage"
)

// An Overview is the state of a service, as JSON shows it.
type Overview struct {
	upstreams.Process
	Started    time.Time        `json:"started"`
	State      health.State     `json:"state"`
	Summary    string           `json:"summary"`
	Failing    int              `json:"failing"`   // sets and upstreams
	Upstreams  int              `json:"upstreams"` // how many
	Resources  int64            `json:"resources"` // as far as they are counted
	Pending    int64            `json:"pending"`
	Hub        *health.Hub      `json:"hub,omitempty"`
	Activities []Measured       `json:"activity"`
	Errors     []recent.Problem `json:"errors"`

	rows  []upstreams.Row // of origins, then of upstreams
	title string          // of the column of names
}

// lookEvery is the shortest interval between two looks at the service: people do not notice
// such a delay, and many pages cost no more than one.
const lookEvery = time.Second

// look returns the state of the service. The result is not changed.
func (d *Dashboard) look(now time.Time) *Overview {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last != nil && now.Sub(d.last.At) < lookEvery && !now.Before(d.last.At) {
		return d.last
	}
	now = now.UTC().Truncate(time.Millisecond)
	p := &health.Process{Process: upstreams.Process{Kind: health.KindHub}}
	if d.opts.Process != nil {
		p.Process, p.Upstreams = d.opts.Process(now)
	}
	p.At, p.Version = now, release.Version()
	loading := false
	if h := d.opts.Hub; h != nil {
		p.Hub = &health.Hub{URL: h.URL}
		if loading = !isReady(h); !loading { // else its figures would be incomplete
			stats := h.Stats()
			p.Hub = health.HubOf(h.URL, &stats)
		}
	}
	if p.Settle(); loading && p.Kind == health.KindHub {
		p.State, p.Summary = health.Starting, "hub at "+p.Hub.URL+": loading subscriptions"
	}
	d.history.Observe(now)
	o := &Overview{Process: p.Process, Started: d.started, State: p.State, Summary: p.Summary, Hub: p.Hub, Upstreams: len(p.Upstreams), Errors: d.history.Errors()}
	o.rows = append(append(o.rows, p.Origins...), p.Upstreams...)
	o.Origins = nil // a page of its own has them
	o.title = "Set"
	if o.isAggregator() {
		o.title = "Upstream"
	}
	for i := range o.rows {
		r := &o.rows[i]
		o.Pending += r.Pending
		if r.State == aggregator.StateFailing {
			o.Failing++
		}
		if r.Resources != nil {
			o.Resources += *r.Resources
		}
	}
	for _, a := range d.opts.Activities {
		o.Activities = append(o.Activities, d.measure(&a, now))
	}
	d.last = o
	return o
}

func (o *Overview) isAggregator() bool { return o.Upstreams > 0 && o.Kind == upstreams.Serve }

// problems returns what is wrong with the service now.
func (d *Dashboard) problems() (all []recent.Problem) {
	if d.opts.Process != nil {
		p, rows := d.opts.Process(time.Now())
		for _, rows := range [][]upstreams.Row{p.Origins, rows} {
			for i := range rows {
				if r := &rows[i]; r.Error != "" {
					all = append(all, recent.Problem{What: r.Label(), Error: fetch.Printable(r.Error), Hint: cmp.Or(r.Hint, hintRetry), Since: r.Since})
				}
			}
		}
	}
	if d.opts.Problem != nil && (d.opts.Hub == nil || isReady(d.opts.Hub)) { // a hub that is loading is no problem
		for line := range strings.Lines(d.opts.Problem()) {
			all = append(all, recent.Problem{What: "service", Error: fetch.Printable(strings.TrimSpace(line)), Hint: hintLog})
		}
	}
	if h := d.opts.Hub; h != nil && isReady(h) && h.Stats().Waiting > 0 {
		failing, _ := h.Subscriptions(context.Background(), status.Selection{Behind: true}, mostAttempts, mostFailing)
		for i := range failing {
			if s := &failing[i]; s.Attempts > 0 {
				all = append(all, recent.Problem{
					What: "subscriber " + s.Callback + " of " + s.Topic, Error: cmp.Or(fetch.Printable(s.LastError), "the last delivery failed"), Since: s.FailingSince,
					Hint: "deliveries are retried; if the subscriber is gone, its subscription ends with its lease, at " + webpage.Stamp(s.Expires),
				})
			}
		}
	}
	return all
}

// What to do about errors that do not say it themselves.
const (
	hintRetry = "it is tried again; if that does not help, check that it can be reached from this machine, and read the log"
	hintLog   = "it is tried again; the log of the process has the details"
)

// isReady reports whether the hub has loaded.
func isReady(h *Hub) bool {
	select {
	case <-h.Ready:
		return true
	default:
		return false
	}
}

// mostFailing is how many failing subscriptions are among the errors: the table of subscribers
// has them all.
const mostFailing = 10

// mostAttempts orders subscriptions by how often their deliveries failed.
func mostAttempts(a, b *status.Subscription) int { return cmp.Compare(b.Attempts, a.Attempts) }

//go:embed overview.html
var overviewHTML string

var overviewView = webpage.Parse(overviewHTML)

// shownErrors is how many errors the overview has.
const shownErrors = 5

// overview shows everything at a glance.
func (d *Dashboard) overview(_ *http.Request, o *Overview) (any, webpage.Page, *webpage.View, error) {
	type section struct {
		Title, Href string
		Hour, Day   string
		Charts      []webpage.Chart
	}
	data := struct {
		State    webpage.Notice
		Facts    []webpage.Fact
		Errors   webpage.Table
		More     int // errors that are not shown
		Sections []section
	}{State: stateNotice(o.State), Facts: o.facts(), Errors: errorTable(o.Errors[:min(len(o.Errors), shownErrors)], o.At)}
	data.More = len(o.Errors) - len(data.Errors.Rows)
	for i := range o.Activities {
		m := &o.Activities[i]
		data.Sections = append(data.Sections, section{m.title, "activity?of=" + m.Name, m.sentence("hour", m.hour), m.sentence("day", m.day), m.charts()})
	}
	return o, webpage.Page{Title: o.heading(), Lead: o.Summary, Nav: "./", Data: data}, overviewView, nil
}

// heading says what the service is.
func (o *Overview) heading() string {
	switch {
	case o.Kind == health.KindHub:
		return "Hub " + o.Hub.URL
	case o.Mirrors > 0:
		return webpage.Count(o.Mirrors) + " mirrors"
	case o.Destination != "":
		return "Mirror " + o.Destination
	case o.isAggregator():
		return "Aggregator " + o.BaseURL
	}
	return "Source " + o.BaseURL
}

// stateNotice says the state in a word.
func stateNotice(s health.State) webpage.Notice {
	switch s {
	case health.OK:
		return webpage.Notice{Kind: "good", Text: "State: ok"}
	case health.Starting:
		return webpage.Notice{Kind: "warn", Text: "State: starting", Remedy: "It has not been in step yet, and nothing has failed so far."}
	}
	return webpage.Notice{Kind: "bad", Text: "State: " + string(s), Remedy: "See the errors below."}
}

// facts are the figures of the moment.
func (o *Overview) facts() []webpage.Fact {
	var facts []webpage.Fact
	add := func(name, value, href string) {
		facts = append(facts, webpage.Fact{Name: name, Value: value, Href: href})
	}
	if o.Kind != health.KindHub {
		if o.Mirrors > 0 {
			add("Mirrors", webpage.Count(o.Mirrors), "sets")
		}
		add("Sets", webpage.Count(o.Sets), "sets")
		if o.isAggregator() {
			add("Upstreams", webpage.Count(o.Upstreams), "sets")
		}
		add("Failing", webpage.Count(o.Failing), "")
		add("Backlog", webpage.Count(o.Pending)+" pending", "")
		if o.Kind == upstreams.Serve {
			add("Resources", webpage.Count(o.Resources), "")
			add("Last published", cmp.Or(webpage.Ago(o.Published, o.At), "not since the start"), "")
		}
	}
	if h := o.Hub; h != nil {
		add("Topics", webpage.Count(h.Topics), "hub")
		add("Subscribers", webpage.Count(h.Subscriptions), "subscribers")
		behind := webpage.Count(h.Lacking)
		if h.Lacking > 0 {
			behind += ", by up to " + term.Count(h.Backlog, "message")
		}
		add("Subscribers behind", behind, "subscribers?behind=true&order=desc&sort=lag")
		add("Subscribers failing", webpage.Count(h.Failing), "subscribers?behind=true&order=desc&sort=attempts")
		add("Requests to verify", webpage.Count(h.Requests), "")
		add("Messages kept", webpage.Size(h.Kept), "")
	}
	add("Running since", webpage.Stamp(o.Started), "")
	add("Version", o.Version, "")
	return facts
}
