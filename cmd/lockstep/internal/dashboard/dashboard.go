// Package dashboard shows people and programs how a running service is: its state in one sentence,
// throughput and latency of the last hour and day, backlog, errors with their remedies, and its
// sets, upstreams and subscribers in tables. Pages are complete without scripts, and renewed while
// they are open. Each has the same as JSON beside it.
//
//	/              overview           also /index.json
//	/sets          sets or upstreams  ?sort=COLUMN&order=desc&page=N
//	/subscribers   of a hub           also ?topic=URL&behind=true
//	/activity      ?of=NAME: throughput and latency, with the figures as a table
//	/errors        those that there are, and those of the last days
//	/events        server-sent events: something has changed
//
// It does not decide which requests may see this: it is served on admin listeners only.
package dashboard

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"lockstep/cmd/lockstep/internal/recent"
	"lockstep/cmd/lockstep/internal/upstreams"
	"lockstep/hub/status"
	"lockstep/internal/webpage"
)

// Options describe a service.
type Options struct {
	Name       string // of the command: "serve", "follow" or "hub"
	State      string // directory in which it is remembered what was done; "" for none
	Activities []Activity

	// Process returns what is known of its sets and upstreams; nil: it is only a hub.
	Process func(now time.Time) (upstreams.Process, []upstreams.Row)
	Hub     *Hub          // nil: none
	Problem func() string // what is wrong besides, a line for each; "" for nothing. May be nil
}

// An Activity is something that a service does.
type Activity struct {
	recent.Counter
	Title   string // as "Requests"
	Unit    string // as "requests"
	Latency string // what the duration is, as "Time to answer"
}

// A Hub is what is known of a hub.
type Hub struct {
	URL           string
	Ready         <-chan struct{} // closed when it has loaded
	Stats         func() status.Stats
	Subscriptions func(ctx context.Context, c status.Selection, order func(a, b *status.Subscription) int, limit int) (all []status.Subscription, selected int)
}

// A Dashboard shows how a service is.
type Dashboard struct {
	opts    Options
	started time.Time
	history *recent.History
	site    *webpage.Site
	streams chan struct{} // has an element for each open stream of events
	ended   chan struct{} // closed when Run has ended: streams end, too

	mu   sync.Mutex // guards what follows; held while the service is looked at, for that is its purpose
	last *Overview  // not older than lookEvery
}

// New returns the dashboard of a service that begins now.
func New(o Options) *Dashboard {
	d := &Dashboard{opts: o, started: time.Now().UTC().Truncate(time.Millisecond), streams: make(chan struct{}, maxStreams), ended: make(chan struct{})}
	counters := make([]recent.Counter, len(o.Activities))
	for i := range o.Activities {
		counters[i] = o.Activities[i].Counter
	}
	d.history = recent.New(o.State, d.problems, counters...)
	d.site = &webpage.Site{Name: "lockstep " + o.Name, Home: "./", Assets: "assets/", Footer: "Lockstep: administration"}
	d.site.Nav = []webpage.Link{{Text: "Overview", Href: "./"}}
	if o.Process != nil {
		d.site.Nav = append(d.site.Nav, webpage.Link{Text: "Sets", Href: "sets"})
	}
	if o.Hub != nil {
		d.site.Nav = append(d.site.Nav, webpage.Link{Text: "Subscribers", Href: "subscribers"})
	}
	d.site.Nav = append(d.site.Nav, webpage.Link{Text: "Errors", Href: "errors"})
	return d
}

// Run remembers what the service does, until ctx ends. It must be called once.
func (d *Dashboard) Run(ctx context.Context, log *slog.Logger) error {
	defer context.AfterFunc(ctx, func() { close(d.ended) })()
	return d.history.Run(ctx, log)
}

// A page answers requests for one address: with what JSON shows, and how a person sees it.
type page func(*http.Request, *Overview) (data any, shown webpage.Page, view *webpage.View, err error)

// ServeHTTP implements [http.Handler].
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/")
	if strings.HasPrefix(path, "assets/") {
		webpage.Assets().ServeHTTP(w, r)
		return
	}
	name, asJSON := strings.CutSuffix(path, ".json")
	if !asJSON && path != "index" {
		asJSON = r.URL.Query().Get("format") == "json"
	} else if name == "index" && path != "index" {
		name = ""
	}
	show := map[string]page{"": d.overview, "sets": d.sets, "subscribers": d.subscribers, "activity": d.activity, "errors": d.errors}[name]
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, r, d.site, asJSON, &problem{http.StatusMethodNotAllowed, "only GET and HEAD are allowed"})
		return
	case path == "events":
		d.events(w, r)
		return
	case show == nil:
		refuse(w, r, d.site, asJSON, &problem{http.StatusNotFound, "there is no such page"})
		return
	}
	data, shown, view, err := show(r, d.look(time.Now()))
	switch {
	case err != nil:
		refuse(w, r, d.site, asJSON, err)
	case asJSON:
		writeJSON(w, "application/json", http.StatusOK, data)
	default:
		shown.Events = "events"
		w.Header().Set("Link", "<"+jsonOf(name, r)+`>; rel="alternate"; type="application/json"`)
		view.Write(w, r, http.StatusOK, d.site, shown)
	}
}

// jsonOf returns the address of the same page as JSON.
func jsonOf(name string, r *http.Request) string {
	if name == "" {
		name = "index"
	}
	q := r.URL.Query()
	q.Del("format")
	u := url.URL{Path: name + ".json", RawQuery: q.Encode()}
	return u.String()
}

// A problem refuses a request.
type problem struct {
	status int
	text   string
}

func (e *problem) Error() string { return e.text }

//go:embed problem.html
var problemHTML string

var problemView = webpage.Parse(problemHTML)

// refuse answers with an error.
func refuse(w http.ResponseWriter, r *http.Request, site *webpage.Site, asJSON bool, err error) {
	code := http.StatusInternalServerError // unreachable: pages only read memory
	if p, ok := errors.AsType[*problem](err); ok {
		code = p.status
	}
	if code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if asJSON {
		writeJSON(w, "application/problem+json", code, map[string]any{"title": http.StatusText(code), "status": code, "detail": err.Error()})
		return
	}
	problemView.Write(w, r, code, site, webpage.Page{Title: http.StatusText(code), Data: webpage.Notice{Kind: "bad", Text: err.Error()}})
}

func writeJSON(w http.ResponseWriter, mediaType string, status int, v any) {
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the client may have disconnected
}
