package site

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"lockstep/cmd/lockstep/internal/admin"
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
func (s *Site) Describe() Description {
	d := Description{BaseURL: s.opts.BaseURL, Versions: s.opts.keepsVersions(), Admin: s.admin}
	for _, set := range s.sets {
		d.Lists = append(d.Lists, set.list)
	}
	if s.api != nil {
		d.API = apiDir
	}
	if s.oai != nil {
		d.OAI = oaiAddress(s.opts.BaseURL)
	}
	return d
}

// PrintSets says where each set begins.
func (s *Site) PrintSets(io term.IO) {
	for _, set := range s.sets {
		io.Printf("  capability list  %s\n", set.list)
		if set.source.Atom == nil {
			continue
		}
		if feed, err := source.AtomFeedURI(s.opts.BaseURL, set.name); err == nil { // the base URL is known to be one
			io.Printf("  atom feed        %s\n", feed)
		}
	}
}

// ServeUntil serves on l, and publishes changes if watch, until ctx ends; then
// requests under way are finished, if they are quick about it. It calls announce
// when all is ready.
func (s *Site) ServeUntil(ctx context.Context, l net.Listener, watch bool, n *sourcereport.Reporter, announce func() error) error {
	h := s.Handler()
	srv := source.NewServer(h)
	srv.ErrorLog = slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)
	tasks := []func(context.Context) error{func(ctx context.Context) error { return s.upkeep(ctx, n) },
		func(ctx context.Context) error { return s.upkeepVersions(ctx, n) }, s.src.Notify, s.indexOAI,
		func(ctx context.Context) error { return s.admin.Serve(ctx, s.adminHandler(), s.log) }}
	if s.hub != nil {
		tasks = append(tasks, s.hub.Run)
	}
	tasks = append(tasks, func(ctx context.Context) error {
		if s.hub != nil && !s.hub.AwaitReady(ctx) {
			return nil
		}
		return announce()
	})
	if watch {
		tasks = append(tasks, func(ctx context.Context) error { return s.watch(ctx, n) })
	}
	return admin.ServeBeside(ctx, srv, s.src.Front(l, h), tasks...)
}

// adminHandler serves administration: the pages, and the API.
func (s *Site) adminHandler() http.Handler {
	return s.Pages.Admin(func(w http.ResponseWriter, r *http.Request) bool {
		if s.api == nil || !strings.HasPrefix(r.URL.EscapedPath(), s.apiPath) {
			return false
		}
		s.api.ServeHTTP(w, r)
		return true
	})
}

// Handler serves all there is at our addresses.
func (s *Site) Handler() http.Handler {
	rest := s.src.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.beside(w, r):
		case s.api != nil && strings.HasPrefix(r.URL.EscapedPath(), s.apiPath):
			s.api.ServeHTTP(w, r)
		default:
			rest.ServeHTTP(w, r)
		}
	})
}
