package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/hubflags"
	"lockstep/cmd/lockstep/internal/listen"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/memento"
	"lockstep/source"
)

// serveOptions are the flags of serve.
type serveOptions struct {
	sourceFlags
	out      *term.Options
	listen   string
	versions bool
	oaiFlags
	embedding
}

func newServe(io term.IO, out *term.Options) *cobra.Command {
	o := &serveOptions{out: out}
	cmd := &cobra.Command{
		Use:   "serve [DIR] [flags]",
		Short: "Run a Source: publish what is in DIR, serve it, watch for changes",
		Long: `Run a Source: scan DIR (default: the working directory), publish its files as
ResourceSync documents, serve documents and files, and keep the documents up to
date while the files change.

In place of DIR there can be a bucket (s3://BUCKET/PREFIX), JSON lines
(jsonl:FILE, jsonl:- for standard input), a sitemap (sitemap:URL), a feed of
Atom-PMH (atom-pmh:URL), a repository that speaks OAI-PMH (oai-pmh:URL), or api:
for resources that applications write by HTTP. Several sets are described in a
configuration file.

The line "ready: URL" on stdout says that everything is served.`,
		Example: `  lockstep serve files
  lockstep serve files --listen 0.0.0.0:80 --base-url http://data.example.org/
  lockstep serve s3://bucket/articles --dump
  lockstep serve --config lockstep.yaml`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.settle(cmd.Flags(), args, io.LookupEnv); err != nil {
				return err
			}
			o.keepVersions()
			o.settleOAI()
			return runServe(cmd.Context(), o, io)
		},
	}
	cmd.Flags().StringVar(&o.listen, "listen", "127.0.0.1:8080", "serve at `HOST:PORT`; port 0 takes a free one")
	o.Flags.Declare(cmd.Flags(), "metrics, the hub's status and subscriptions, api:")
	cmd.Flags().BoolVar(&o.versions, "versions", false, "keep all versions of every resource, and offer them through Memento")
	o.oaiFlags.declare(cmd.Flags())
	o.sourceFlags.declare(cmd.Flags(), "the public `URL` of this Source (default: that of --listen)", true)
	o.embedding.hub.Declare(cmd.Flags(), "hub-")
	return cmd
}

// keepVersions has every set keep versions that does not say which, if that is
// wanted.
func (o *serveOptions) keepVersions() {
	for i := range o.sets {
		if c := &o.sets[i]; o.versions && c.Versions == nil {
			c.Versions = &config.Versions{Keep: &config.KeepValue{All: true}}
		}
	}
}

// runServe serves until ctx ends.
func runServe(ctx context.Context, o *serveOptions, io term.IO) error {
	so := o.site("serve", o.out, io)
	so.content, so.embedding, so.oai = true, &o.embedding, o.oaiFlags
	if so.documents = string(o.file.Documents); so.documents == "" {
		so.documents = filepath.Join(o.state, "documents")
	}
	if err := so.check(); err != nil {
		return err
	}
	if err := so.lock(); err != nil {
		return err
	}
	defer so.release()
	l, err := listen.Open(ctx, o.listen)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }() // the server closes it as well
	if so.baseURL == "" {
		so.baseURL = listen.BaseURL(l.Addr(), io)
	}
	stopStarting := listen.AnswerStarting(l, o.out.Logger(io))
	defer stopStarting()
	n := &newsroom{io: io, quiet: o.out.Quiet}
	so.onEvent, so.onNotify = n.event, n.notified
	s, err := openSite(ctx, so)
	if err != nil {
		return err
	}
	defer s.Close()
	stop := term.ShowProgress(io, o.out.Quiet, n.line)
	p, err := s.publishOnce(ctx, n)
	stop()
	if err != nil {
		return err
	}
	if err := p.failed(); err != nil {
		n.warn(err)
	}
	stopStarting()
	return s.serveUntil(ctx, l, o.watching(), n, func() error { return o.announce(s, &p, io) })
}

// A serving is what serve prints with --json.
type serving struct {
	BaseURL        string   `json:"base_url"`
	Listen         string   `json:"listen"`
	CapabilityList []string `json:"capability_lists"`
	Resources      int64    `json:"resources"`
	State          string   `json:"state"`
	Admin          string   `json:"admin,omitempty"`
	AdminTokenFile string   `json:"admin_token_file,omitempty"`
}

// announce says on stdout what is served, and where.
func (o *serveOptions) announce(s *site, p *publication, io term.IO) error {
	base := s.opts.baseURL
	if o.out.JSON {
		v := serving{BaseURL: base, Listen: o.listen, Resources: p.resources(), State: o.state, Admin: s.admin.Address(), AdminTokenFile: s.admin.TokenFile}
		for _, set := range s.sets {
			v.CapabilityList = append(v.CapabilityList, set.list)
		}
		return io.PrintJSON(v)
	}
	io.Printf("serving %s from %s\n", term.Count(p.resources(), "resource"), o.places())
	s.printSets(io)
	io.Printf("  mirror it with   lockstep sync %s DEST\n", base)
	if s.api != nil {
		io.Printf("  fill it through  %s%s\n", strings.TrimSuffix(base, "/")+"/", apiDir)
	}
	if s.oai != nil {
		io.Printf("  harvest it from  %s (OAI-PMH)\n", oaiAddress(base))
	}
	if o.watching() {
		io.Printf("  stay in step     lockstep follow %s DEST\n", base)
	}
	if s.opts.keepsVersions() {
		io.Printf("  prior versions   %s%sURI\n", strings.TrimSuffix(base, "/")+"/", memento.TimeGatePrefix)
	}
	s.admin.Print(io)
	for _, hub := range s.opts.hubs.URLs {
		if hub != hubflags.Off && hub != hubflags.Embedded {
			io.Printf("  notifies hub     %s\n", hub)
		}
	}
	if o.watching() {
		io.Printf("  watching for changes; Ctrl-C stops\n")
	}
	io.Printf("%s%s\n", listen.ReadyPrefix, base)
	return nil
}

// printSets says where each set begins.
func (s *site) printSets(io term.IO) {
	for _, set := range s.sets {
		io.Printf("  capability list  %s\n", set.list)
		if set.source.Atom == nil {
			continue
		}
		if feed, err := source.AtomFeedURI(s.opts.baseURL, set.name); err == nil { // the base URL is known to be one
			io.Printf("  atom feed        %s\n", feed)
		}
	}
}

// serveUntil serves on l, and publishes changes if watch, until ctx ends; then
// requests under way are finished, if they are quick about it. It calls announce
// when all is ready.
func (s *site) serveUntil(ctx context.Context, l net.Listener, watch bool, n *newsroom, announce func() error) error {
	h := s.handler()
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
func (s *site) adminHandler() http.Handler {
	return s.pages.Admin(func(w http.ResponseWriter, r *http.Request) bool {
		if s.api == nil || !strings.HasPrefix(r.URL.EscapedPath(), s.apiPath) {
			return false
		}
		s.api.ServeHTTP(w, r)
		return true
	})
}

// handler serves all there is at our addresses.
func (s *site) handler() http.Handler {
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
