package site

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/url"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/alert"
	"lockstep/cmd/lockstep/internal/hubserver"
	"lockstep/cmd/lockstep/internal/origins"
	"lockstep/cmd/lockstep/internal/readers"
	"lockstep/cmd/lockstep/internal/sourcereport"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/source"
)

// A Description says what a site serves, and where.
type Description struct {
	BaseURL  string
	Lists    []string // URIs of the Capability Lists
	API      string   // path of the API below the base URL; "" if there is none
	OAI      string   // URL of the repository; "" if there is none
	Versions bool     // prior versions are served
	Admin    *admin.Access
}

// Describe returns what the site serves.
func (s *Site) Describe() Description { return s.about }

// PrintSets prints where the documents of each set begin.
func (s *Site) PrintSets(io term.IO) {
	for _, set := range s.setup.Load().sets {
		io.Printf("  capability list  %s\n", set.list)
		if set.source.Atom == nil {
			continue
		}
		if feed, err := source.AtomFeedURI(s.about.BaseURL, set.name); err == nil { // the base URL was checked
			io.Printf("  atom feed        %s\n", feed)
		}
	}
}

// ServeUntil serves on l, and publishes changes if watch, until ctx ends; then
// requests under way are finished, if that is quick. It calls announce
// when everything is ready.
func (s *Site) ServeUntil(ctx context.Context, l net.Listener, watch bool, n *sourcereport.Reporter, alerts *alert.Service, announce func() error) error {
	h := s.Handler()
	srv := source.NewServer(s.requests.Handler(h))
	srv.ErrorLog = slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)
	tasks := append(s.tasks(watch, n),
		func(ctx context.Context) error {
			return s.about.Admin.Serve(ctx, s.requests.AdminHandler(s.AdminHandler()), s.log)
		},
		s.requests.Run)
	tasks = append(tasks, func(ctx context.Context) error {
		if s.hub != nil && !s.hub.AwaitReady(ctx) {
			return nil
		}
		if err := announce(); err != nil {
			return err
		}
		return alerts.Run(ctx, s.problem)
	})
	if tls := s.builder.opts.Embedding.certificate(); tls != nil {
		l = tls.Over(l) // the front reads plain connections
	} else {
		l = source.NewFront(l, h, func() *source.Source { return s.setup.Load().src })
	}
	return admin.ServeBeside(ctx, srv, l, tasks...)
}

// A Task is something that a site does until ctx ends.
type Task = func(ctx context.Context) error

// tasks returns all that a site does beside answering requests.
func (s *Site) tasks(watch bool, n *sourcereport.Reporter) []Task {
	tasks := []Task{
		func(ctx context.Context) error { return s.run(ctx, watch, n) },
		func(ctx context.Context) error { return s.versions.Run(ctx, n) },
		func(ctx context.Context) error { return s.board.Run(ctx, s.log) },
	}
	if s.hub != nil {
		tasks = append(tasks, s.hub.Run)
	}
	return tasks
}

// AdminHandler serves the administration.
func (s *Site) AdminHandler() http.Handler { return s.Pages.Admin(s.api.Serve) }

// Handler serves everything at the addresses of the site.
func (s *Site) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.setup.Load().front.ServeHTTP(w, r) })
}

// A front passes each request at the addresses of a site to the part that answers it.
type front struct {
	callbacks  *origins.Callbacks // of upstreams; nil: none
	pages      *admin.Pages       // nil: none
	hub        *hubserver.Front   // nil: none
	hubPath    string             // of its address
	harvesting *harvesting        // nil: none
	api        *origins.API
	have       func(r *http.Request, rel string) bool // reports whether the client may see a resource at a path below the base URL
	documents  http.Handler                           // and resources
	readers    *readers.Gate                          // of private sets
	explorer   http.Handler                           // pages on which the sets are browsed; nil: none
	exploreDir string                                 // their path, with a slash at its end
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = f.readers.Mark(r)
	switch {
	case f.callbacks.Serve(w, r):
	case f.pages != nil && origins.RefuseCallback(w, r, f.pages.Dir):
	case f.pages != nil && f.pages.Serve(w, r):
	case f.serveExplorer(w, r):
	case f.hub != nil && r.URL.EscapedPath() == f.hubPath && !f.hidesHub(r):
		f.hub.ServeHTTP(w, r)
	case f.harvesting.serve(w, r):
	case f.api.Serve(w, r):
	default:
		f.documents.ServeHTTP(w, r)
	}
}

// hidesHub reports whether r requests a resource that has the address of the hub: a hub
// is used with POST, and its answer to GET is only a description of itself.
func (f *front) hidesHub(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && f.have(r, hubserver.Path)
}

// parseBase returns the base URL of a Source, with a slash at its end.
func parseBase(baseURL string) (*url.URL, error) {
	base, err := source.BaseURL(baseURL)
	if err != nil {
		return nil, term.Usage(err, "")
	}
	return url.Parse(base) // without error: BaseURL has parsed it
}
