package main

import (
	"context"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/alert"
	"lockstep/cmd/lockstep/internal/certificate"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/hangup"
	"lockstep/cmd/lockstep/internal/hubflags"
	"lockstep/cmd/lockstep/internal/listen"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/sdnotify"
	"lockstep/cmd/lockstep/internal/sharedserve"
	"lockstep/cmd/lockstep/internal/site"
	"lockstep/cmd/lockstep/internal/sourceflags"
	"lockstep/cmd/lockstep/internal/sourcereport"
	"lockstep/cmd/lockstep/internal/stateplace"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/garbage"
	"lockstep/internal/statedir"
	"lockstep/memento"
)

// serveOptions are the flags of serve.
type serveOptions struct {
	sourceflags.Source
	out      *term.Options
	listen   string
	tls      certificate.Flags
	versions bool
	sharing  sharedserve.Flags
	site.OAIFlags
	site.Embedding
	alerts alert.Flags
}

func newServe(io term.IO, out *term.Options, signals hangup.Signals) *cobra.Command {
	o := &serveOptions{out: out}
	cmd := &cobra.Command{
		Use:   "serve [DIR] [flags]",
		Short: "Run a Source: publish what is in DIR, serve it, watch for changes",
		Long: `Run a Source: scan DIR (default: the working directory), publish its files as
ResourceSync documents, serve documents and files, and keep the documents up to
date while the files change.

In place of DIR there can be a bucket (s3://BUCKET/PREFIX), JSON lines
(jsonl:FILE, jsonl:- for standard input), a sitemap (sitemap:URL), a feed of
Atom-PMH (atom-pmh:URL), a repository that speaks OAI-PMH (oai-pmh:URL), another
Source to republish (resourcesync:URL), or api: for resources that applications
write by HTTP. Several sets are described in a configuration file.

The line "ready: URL" on stdout says that everything is served.`,
		Example: `  lockstep serve files
  lockstep serve files --listen 0.0.0.0:80 --base-url http://data.example.org/
  lockstep serve s3://bucket/articles --dump
  lockstep serve --config lockstep.yaml`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			given := config.Given(cmd.Flags())
			if err := o.settle(cmd.Flags(), args, io); err != nil {
				return err
			}
			if o.ConfigFile() == "" {
				signals.Release()
			}
			return asService(cmd.Context(), out, io, func(ctx context.Context) error {
				return mirror.ExplainAddress(runServe(ctx, o, io, signals, func() ([]config.Set, error) {
					return rereadSets(cmd.Flags(), given, args, io)
				}))
			})
		},
	}
	o.declare(cmd.Flags())
	return cmd
}

// declare declares the flags.
func (o *serveOptions) declare(flags *pflag.FlagSet) {
	flags.StringVar(&o.listen, "listen", "127.0.0.1:8080", "serve at `HOST:PORT`; port 0 takes a free one")
	o.tls.Declare(flags)
	o.sharing.Declare(flags)
	o.Embedding.Admin.Declare(flags, "metrics, the hub's status and subscriptions, api:")
	flags.BoolVar(&o.versions, "versions", false, "keep all versions of every resource, and offer them through Memento")
	o.Embedding.Access.Declare(flags)
	o.OAIFlags.Declare(flags)
	o.alerts.DeclareService(flags)
	o.Source.Declare(flags, "the public `URL` of this Source (default: that of --listen)", true)
	o.Embedding.Hub.Declare(flags, "hub-")
}

// settle fills in what the flags leave open.
func (o *serveOptions) settle(flags *pflag.FlagSet, args []string, io term.IO) error {
	if err := o.Settle(flags, args, io.LookupEnv); err != nil {
		return err
	}
	o.keepVersions()
	o.settleOAI()
	return nil
}

// keepVersions has every set keep versions that does not say which, if that is
// wanted.
func (o *serveOptions) keepVersions() {
	for i := range o.Sets {
		if c := &o.Sets[i]; o.versions && c.Versions == nil {
			c.Versions = &config.Versions{Keep: &config.KeepValue{All: true}}
		}
	}
}

// runServe serves until ctx ends. At each of the signals reread reads the sets of the
// configuration file again.
func runServe(ctx context.Context, o *serveOptions, io term.IO, signals hangup.Signals, reread func() ([]config.Set, error)) error {
	so := o.Site("serve", o.out, io)
	if so.HasSeveralUpstreams() {
		garbage.TuneUpstreams()
	} else {
		garbage.TuneSource()
	}
	so.Content, so.Embedding, so.OAI = true, &o.Embedding, o.OAIFlags
	if o.sharing.Shared {
		so.State = so.State.Shared()
	}
	if so.Documents = string(o.File.Documents); so.Documents == "" {
		so.Documents = filepath.Join(o.State.Dir, statedir.DocumentsDir)
	}
	if err := so.Check(); err != nil {
		return err
	}
	if err := o.sharing.Check(ctx, &so); err != nil {
		return err
	}
	alerts, err := o.alerts.Service(alert.Run{Command: "serve", Source: o.Places(), Dest: so.Documents, Roots: so.Network.Certificates}, io)
	if err != nil {
		return err
	}
	if o.TLS, err = o.tls.Open(so.Log); err != nil {
		return err
	}
	if err := so.Lock(); err != nil {
		return err
	}
	defer so.Release()
	l, err := listen.Open(ctx, o.listen)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }() // the server closes it as well
	before := ""
	if so.BaseURL != "" {
		before = publishedAt(so.Documents)
	} else {
		so.BaseURL = listen.BaseURL(o.TLS.Scheme(), l.Addr(), io)
	}
	o.TLS.WarnAbout(so.BaseURL, io)
	stopStarting := listen.AnswerStarting(l, o.TLS, so.Log)
	defer stopStarting()
	sdnotify.Send(io.LookupEnv, sdnotify.Ready, sdnotify.Status("publishing what changed since the last run"))
	n := &sourcereport.Reporter{IO: io, Quiet: o.out.Quiet}
	so.OnEvent, so.OnNotify = n.Event, n.Notified
	if o.sharing.Shared {
		return o.runShared(ctx, l, sharedserve.Options{Site: so, Report: n, Alerts: alerts}, stopStarting, signals)
	}
	s, err := site.Open(ctx, so)
	if err != nil {
		return err
	}
	defer s.Close()
	var checks sync.WaitGroup
	defer checks.Wait()
	ctx, done := s.WhileOwned(ctx)
	defer done()
	stop := term.ShowProgress(io, o.out.Quiet, n.Line)
	p, err := s.PublishOnce(ctx, n)
	stop()
	if err != nil {
		return stateplace.Cause(ctx, err)
	}
	if err := p.Failed(); err != nil {
		n.Warn(err)
	}
	warnOfMove(n, before, publishedAt(so.Documents), "serve again")
	s.WarnOfAccess(ctx, n)
	stopStarting()
	checks.Go(func() {
		s.WarnOfOverlaps(ctx, n)
		for _, problem := range so.Hubs.Check(ctx, so.Network, so.Log) {
			n.Warn(problem)
		}
	})
	go reloadAt(ctx, signals, s, reread, n)
	err = s.ServeUntil(ctx, l, o.Watching(), n, alerts, func() error { return o.announce(s, &p, io) })
	return stateplace.Cause(ctx, err)
}

// maxHeldNamed is how many sets are named that are not published yet.
const maxHeldNamed = 5

// A serving is what serve prints with --json.
type serving struct {
	BaseURL        string   `json:"base_url"`
	Listen         string   `json:"listen"`
	CapabilityList []string `json:"capability_lists"`
	Resources      int64    `json:"resources"`
	State          string   `json:"state"`
	Hidden         int64    `json:"hidden"`            // files and directories that are left out because their names begin with a dot
	Private        int64    `json:"private"`           // files and directories that are published although other users may not read them
	Standby        string   `json:"standby,omitempty"` // with --shared: which process publishes in place of this one
	Admin          string   `json:"admin,omitempty"`
	AdminTokenFile string   `json:"admin_token_file,omitempty"`
}

// announce says on stdout what is served, and where.
func (o *serveOptions) announce(s *site.Site, p *site.Publication, io term.IO) error {
	d := s.Describe()
	sdnotify.Send(io.LookupEnv, sdnotify.Status(listen.ReadyPrefix+d.BaseURL))
	if o.out.JSON {
		return io.PrintJSON(serving{BaseURL: d.BaseURL, Listen: o.listen, CapabilityList: d.Lists, Resources: p.Resources(), State: o.State.String(), Hidden: p.Hidden(), Private: p.Private(), Admin: d.Admin.Address(), AdminTokenFile: d.Admin.TokenFile})
	}
	if o.out.Quiet {
		io.Printf("%s%s\n", listen.ReadyPrefix, d.BaseURL)
		return nil
	}
	base := strings.TrimSuffix(d.BaseURL, "/") + "/"
	io.Printf("serving %s from %s\n", term.Count(p.Resources(), "resource"), o.Places())
	if n := p.Hidden(); n > 0 {
		io.Printf("  %s\n", sourcereport.HiddenText(n))
	}
	s.PrintSets(io)
	io.Printf("  mirror it with   lockstep sync %s DEST\n", d.BaseURL)
	if held := p.Held(); len(held) > 0 {
		what := strings.Join(held, ", ")
		if len(held) > maxHeldNamed {
			what = term.Count(len(held), "set")
		}
		io.Printf("  not yet          %s: published once all upstreams have been read (first_wait)\n", what)
	}
	if d.API != "" {
		io.Printf("  fill it through  %s%s\n", base, d.API)
	}
	if d.OAI != "" {
		io.Printf("  harvest it from  %s (OAI-PMH)\n", d.OAI)
	}
	if o.Watching() {
		io.Printf("  stay in step     lockstep follow %s DEST\n", d.BaseURL)
	}
	if d.Versions {
		io.Printf("  prior versions   %s%sURI\n", base, memento.TimeGatePrefix)
	}
	d.Admin.Print(io)
	for _, hub := range o.Hubs.URLs {
		if hub != hubflags.Off && hub != hubflags.Embedded {
			io.Printf("  notifies hub     %s\n", hub)
		}
	}
	if o.Watching() {
		io.Printf("  watching for changes; Ctrl-C stops\n")
	}
	io.Printf("%s%s\n", listen.ReadyPrefix, d.BaseURL)
	return nil
}

// settleOAI has every set offered to harvesters that does not say whether, if
// that is wanted.
func (o *serveOptions) settleOAI() {
	for i := range o.Sets {
		if c := &o.Sets[i]; o.All && c.OAIPMH == nil {
			c.OAIPMH = new(true)
		}
	}
}
