package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/listen"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/hub"
	"lockstep/internal/fetch"
	"lockstep/internal/statedir"
	"lockstep/source"
)

// hubOptions are the flags of hub.
type hubOptions struct {
	hubSettings
	admin.Flags
	out       *term.Options
	listen    string
	publicURL string
	state     string
}

func newHub(io term.IO, out *term.Options) *cobra.Command {
	o := &hubOptions{out: out}
	cmd := &cobra.Command{
		Use:   "hub [flags]",
		Short: "Run a WebSub hub: pass notifications on to all subscribers",
		Long: `Run a WebSub hub: publishers notify it of changes, and it passes them on to all
subscribers, of any topic and any content. lockstep serve has one embedded; one on
its own serves many Sources, or programs that have nothing to do with ResourceSync.

The hub keeps an accepted message until every subscriber has accepted it, through
restarts, with retries. Subscribers whose callbacks are at private addresses are
refused unless --allow-private. Publishing requires a token, which is created at
the first start, or is in --publish-token-file; with --publish-open it requires
none. --publish-prefix limits the topics.

The line "ready: URL" on stdout says that it accepts requests at URL/hub. Its status page is /-/hub on the admin socket, or with the admin token.`,
		Example: `  lockstep hub --listen 127.0.0.1:8090 --allow-private
  lockstep hub --listen :8090 --public-url https://hub.example.org/ --publish-token-file tokens
  lockstep hub --state postgres://hub@db.example.org/hub --key-file hub.key --public-url https://hub.example.org/
  lockstep serve files --hub http://127.0.0.1:8090/`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return runHub(cmd.Context(), o, io) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.listen, "listen", "127.0.0.1:8080", "take requests at `HOST:PORT`; port 0 takes a free one")
	flags.StringVar(&o.publicURL, "public-url", "", "the public `URL` of the hub (default: that of --listen)")
	flags.StringVar(&o.state, "state", "", "keep topics, messages and subscriptions in `DIR`, or in a database several hubs share, postgres://… (default one per URL below ~/.local/state/lockstep)")
	o.Flags.Declare(flags, "status, metrics, subscriptions")
	o.hubSettings.declare(flags, "")
	return cmd
}

// A hubbing is what hub prints with --json.
type hubbing struct {
	URL    string `json:"url"`
	Listen string `json:"listen"`
	Status string `json:"status"`
	State  string `json:"state"`

	Admin            string `json:"admin,omitempty"`
	AdminTokenFile   string `json:"admin_token_file"`
	PublishTokenFile string `json:"publish_token_file,omitempty"`
}

// runHub is a hub until ctx ends.
func runHub(ctx context.Context, o *hubOptions, io term.IO) error {
	if o.publicURL != "" && !config.IsAbsoluteURI(o.publicURL) {
		return term.Usage(fmt.Errorf("--public-url %q is no http(s) URL", fetch.WithoutUser(o.publicURL)), "write it whole, as https://hub.example.org/")
	}
	if fetch.WithoutUser(o.publicURL) != o.publicURL {
		return term.Usage(fmt.Errorf("--public-url %s has a user name or password, which would be sent to every subscriber", fetch.WithoutUser(o.publicURL)), "leave it out")
	}
	ho, err := o.options(o.publicURL)
	if err != nil {
		return err
	}
	if err := errors.Join(o.Flags.Check(), o.checkFiles()); err != nil {
		return err
	}
	if o.state == "" {
		if o.state, err = defaultHubState(o.publicURL, o.listen, io.LookupEnv); err != nil {
			return err
		}
	}
	log := o.out.Logger(io)
	release, err := lockHubState(o.state, o.keyFile, log)
	if err != nil {
		return err
	}
	defer release()
	l, err := listen.Open(ctx, o.listen)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }() // the server closes it as well
	if ho.PublicURL == "" {
		ho.PublicURL = listen.BaseURL(l.Addr(), io)
	}
	ho.Logger = log
	h := &admin.StartingHandler{}
	srv := source.NewServer(h)
	srv.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	state := &hubState{close: func() {}}
	defer func() { state.close() }() // after the last request
	return admin.ServeBeside(ctx, srv, l, func(ctx context.Context) error {
		s, err := openHubState(ctx, o.state, o.keyFile, log)
		if err != nil {
			return err
		}
		state = s
		return o.run(ctx, state, ho, h, l.Addr().String(), io)
	})
}

// run is a hub until ctx ends. Until it has loaded, h says that it is starting.
func (o *hubOptions) run(ctx context.Context, state *hubState, ho hub.Options, h *admin.StartingHandler, listening string, io term.IO) error {
	ho.Secret = state.key
	local := o.state // for sockets and tokens
	if strings.Contains(local, "://") {
		var err error
		if local, err = defaultState("hub "+ho.PublicURL+" at "+listening, false, io.LookupEnv); err != nil {
			return err
		}
		if err := statedir.Make(local, ho.Logger); err != nil {
			return err
		}
	}
	access, err := o.Flags.Open(ctx, local, true, io)
	if err != nil {
		return err
	}
	defer access.Close()
	publishToken := ""
	if !o.publishOpen {
		if publishToken, ho.PublishTokens, err = publishTokens("publish-token-file", o.publishTokenFile, local); err != nil {
			return err
		}
	}
	front, err := newHubFront(ctx, state.store, ho)
	if err != nil {
		return err
	}
	about := front.about(access, admin.NewMetrics())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return front.Run(ctx) })
	g.Go(func() error { return access.Serve(ctx, about.Admin(nil), ho.Logger) })
	g.Go(func() error {
		if !front.awaitReady(ctx) {
			return nil
		}
		h.Set(front.alone(about))
		return o.announce(front, listening, access, publishToken, io)
	})
	return g.Wait()
}

// defaultHubState returns the state directory of a hub: one for each address,
// as others know it.
func defaultHubState(publicURL, listen string, lookup func(string) (string, bool)) (string, error) {
	if publicURL != "" {
		return defaultState("hub "+publicURL, false, lookup)
	}
	return defaultState("hub "+listen, false, lookup)
}

// announce says on stdout where the hub is.
func (o *hubOptions) announce(f *hubFront, listening string, access *admin.Access, publishToken string, io term.IO) error {
	status := "http://" + listening + "/" + admin.PagesDir + "hub"
	if o.out.JSON {
		return io.PrintJSON(hubbing{URL: f.url, Listen: listening, Status: status, State: withoutPassword(o.state),
			Admin: access.Address(), AdminTokenFile: access.TokenFile, PublishTokenFile: publishToken})
	}
	io.Printf("hub at %s\n", f.url)
	access.Print(io)
	token := ""
	if publishToken != "" {
		io.Printf("  publish token    %s\n", publishToken)
		token = " --hub-token " + f.url + "=" + admin.Quoted(publishToken)
	}
	io.Printf("  publish to it    lockstep serve DIR --hub %s%s\n", f.url, token)
	io.Printf("%s%s\n", listen.ReadyPrefix, f.url)
	return nil
}

// withoutPassword returns the state as it may be shown.
func withoutPassword(state string) string {
	if u, err := url.Parse(state); err == nil && strings.Contains(state, "://") {
		return u.Redacted()
	}
	return state
}

// A hubFront is a hub and what is to be seen of it, on its own or within a
// Source.
type hubFront struct {
	*hub.Hub
	url       string // as others reach it
	readiness *admin.Readiness
}

// newHubFront returns a hub that keeps its memory in store.
func newHubFront(ctx context.Context, store hub.Store, o hub.Options) (*hubFront, error) {
	h, err := hub.New(store, o)
	if err != nil {
		return nil, term.Usage(err, "")
	}
	if err := h.CheckSecret(ctx); err != nil {
		return nil, term.WithHint(err, "name the file with the right key by --key-file, or bring it back")
	}
	return &hubFront{h, o.PublicURL, &admin.Readiness{Check: h.Check, Log: o.Logger}}, nil
}

// awaitReady waits until the hub takes requests, and reports whether it does.
func (f *hubFront) awaitReady(ctx context.Context) bool {
	select {
	case <-f.Ready():
		return true
	case <-ctx.Done():
		return false
	}
}

// ready says why the hub takes no requests: it is loading or stopping, or its
// database does not work.
func (f *hubFront) ready() error { return f.readiness.Ready() }

// hubAPIPath is where the hub is managed, below the pages of a process.
const hubAPIPath = "api/v1/hub"

// show adds what is to be seen of the hub to the pages of a process.
func (f *hubFront) show(p *admin.Pages, a *admin.Access, m *admin.Metrics) {
	p.Protect("hub", f.StatusPage(p.Dir+hubAPIPath, a.Curl))
	p.Mount(hubAPIPath, f.API())
	m.Register(f.figures)
}

// about returns the pages of a hub that runs on its own.
func (f *hubFront) about(a *admin.Access, m *admin.Metrics) *admin.Pages {
	p := admin.NewPages("/", a.Guard, m, f.ready)
	f.show(p, a, m)
	return p
}

// alone serves the hub where there is nothing else. Behind a proxy it may be
// asked by the path of its own address, or by the root: all mean the hub.
func (f *hubFront) alone(about *admin.Pages) http.Handler {
	own := "/"
	if u, err := url.Parse(f.url); err == nil && u.EscapedPath() != "" {
		own = u.EscapedPath()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.EscapedPath(); {
		case about.Serve(w, r):
		case path == "/", path == "/"+hubPath, path == own:
			f.ServeHTTP(w, r)
		default:
			w.Header().Set("X-Content-Type-Options", "nosniff")
			http.Error(w, "there is nothing here; the hub is at "+f.url, http.StatusNotFound)
		}
	})
}
