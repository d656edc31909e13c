package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"lockstep/cmd/lockstep/internal/accesslog"
	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/alert"
	"lockstep/cmd/lockstep/internal/certificate"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/dashboard"
	"lockstep/cmd/lockstep/internal/hubserver"
	"lockstep/cmd/lockstep/internal/listen"
	"lockstep/cmd/lockstep/internal/sdnotify"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/hub"
	"lockstep/internal/fetch"
	"lockstep/internal/garbage"
	"lockstep/internal/statedir"
	"lockstep/source"
)

// hubOptions are the flags of hub.
type hubOptions struct {
	hubserver.Settings
	admin.Flags
	tls       certificate.Flags
	out       *term.Options
	listen    string
	publicURL string
	state     string
	access    accesslog.Flags
	alerts    alert.Flags
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

The line "ready: URL" on stdout says that it accepts requests at URL/hub. Its status
page is /-/hub on the admin socket, or with the admin token.`,
		Example: `  lockstep hub --listen 127.0.0.1:8090 --allow-private
  lockstep hub --listen :8090 --public-url https://hub.example.org/ --publish-token-file tokens
  lockstep hub --state postgres://hub@db.example.org/hub --key-file hub.key --public-url https://hub.example.org/
  lockstep serve files --hub http://127.0.0.1:8090/ --hub-token http://127.0.0.1:8090/=publish-token`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := config.RefuseWithout(cmd.Flags(), io.LookupEnv, []string{"access-log-format access-log", "failure-after on-failure ping-url"}); err != nil {
				return err
			}
			return asService(cmd.Context(), out, io, func(ctx context.Context) error { return runHub(ctx, o, io) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.listen, "listen", "127.0.0.1:8080", "take requests at `HOST:PORT`; port 0 takes a free one")
	flags.StringVar(&o.publicURL, "public-url", "", "the public `URL` of the hub (default: that of --listen)")
	flags.StringVar(&o.state, "state", "", "keep topics, messages and subscriptions in `DIR`, or in a database several hubs share, postgres://… (default one per URL below ~/.local/state/lockstep)")
	o.tls.Declare(flags)
	o.Flags.Declare(flags, "status, metrics, subscriptions")
	o.Settings.Declare(flags, "")
	o.access.Declare(flags)
	o.alerts.DeclareService(flags)
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
	garbage.TuneHub()
	if o.publicURL != "" && !config.IsAbsoluteURI(o.publicURL) {
		return term.Usage(fmt.Errorf("--public-url %q is no http(s) URL", fetch.WithoutUser(o.publicURL)), "write it in full, as https://hub.example.org/")
	}
	if fetch.WithoutUser(o.publicURL) != o.publicURL {
		return term.Usage(fmt.Errorf("--public-url %s has a user name or password, which would be sent to every subscriber", fetch.WithoutUser(o.publicURL)), "leave it out")
	}
	ho, err := o.Options(o.publicURL)
	if err != nil {
		return err
	}
	if err := errors.Join(o.Flags.Check(), o.CheckFiles()); err != nil {
		return err
	}
	if o.state == "" {
		if o.state, err = defaultHubState(o.publicURL, o.listen, io.LookupEnv); err != nil {
			return err
		}
	}
	alerts, err := o.alerts.Service(alert.Run{Command: "hub", Dest: withoutPassword(o.state), Roots: func() (*x509.CertPool, error) { return ho.RootCAs, nil }}, io)
	if err != nil {
		return err
	}
	requests, err := o.access.Open(admin.KindOf("hub"), ho.TrustedProxies, io)
	if err != nil {
		return err
	}
	defer requests.Close()
	log := o.out.Logger(io)
	tls, err := o.tls.Open(log)
	if err != nil {
		return err
	}
	release, err := hubserver.LockState(o.state, o.KeyFile, log)
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
		ho.PublicURL = listen.BaseURL(tls.Scheme(), l.Addr(), io)
	}
	tls.WarnAbout(ho.PublicURL, io)
	ho.Logger = log
	sdnotify.Send(io.LookupEnv, sdnotify.Ready, sdnotify.Status("loading subscriptions"))
	h := &admin.StartingHandler{}
	srv := source.NewServer(requests.Handler(h))
	srv.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	state := &hubserver.State{Close: func() {}}
	defer func() { state.Close() }() // after the last request
	return admin.ServeBeside(ctx, srv, tls.Over(l), func(ctx context.Context) error {
		s, err := hubserver.OpenState(ctx, o.state, o.KeyFile, log)
		if err != nil {
			return err
		}
		state = s
		return o.run(ctx, state, ho, h, l.Addr().String(), tls, alerts, requests, io)
	})
}

// run is a hub until ctx ends. Until it has loaded, h says that it is starting.
func (o *hubOptions) run(ctx context.Context, state *hubserver.State, ho hub.Options, h *admin.StartingHandler, listening string, tls *certificate.Pair, alerts *alert.Service, requests *accesslog.Log, io term.IO) error {
	ho.Secret = state.Key
	local := o.state // for sockets and tokens
	if strings.Contains(local, "://") {
		var err error
		if local, err = config.DefaultState("hub "+ho.PublicURL+" at "+listening, false, io.LookupEnv); err != nil {
			return err
		}
		if err := statedir.Make(local, ho.Logger); err != nil {
			return err
		}
	}
	access, err := o.Flags.Open(ctx, local, true, tls, io)
	if err != nil {
		return err
	}
	defer access.Close()
	publishToken := ""
	if !o.PublishOpen {
		tokens, err := hubserver.OpenPublishTokens("publish-token-file", o.PublishTokenFile, local, ho.Logger)
		if err != nil {
			return err
		}
		publishToken, ho.CurrentPublishTokens = tokens.Path, tokens.Current
	}
	front, err := hubserver.New(ctx, state.Store, ho)
	if err != nil {
		return err
	}
	m := access.Metrics()
	m.Register(requests.Figures)
	about := front.About(access, m)
	board := dashboard.New(dashboard.Options{Name: "hub", State: local, Activities: front.Activities(), Hub: front.Seen(), Problem: func() string { return admin.WithCause(front.CheckReady()) }})
	about.Dashboard(access, board)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return front.Run(ctx) })
	g.Go(func() error { return access.Serve(ctx, requests.AdminHandler(about.Admin(nil)), ho.Logger) })
	g.Go(func() error { return requests.Run(ctx) })
	g.Go(func() error { return board.Run(ctx, ho.Logger) })
	g.Go(func() error {
		if !front.AwaitReady(ctx) {
			return nil
		}
		h.Set(front.Alone(about))
		if err := o.announce(front, listening, access, publishToken, io); err != nil {
			return err
		}
		return alerts.Run(ctx, func() string { return admin.WithCause(front.CheckReady()) })
	})
	return g.Wait()
}

// defaultHubState returns the state directory of a hub: one for each address,
// as others know it.
func defaultHubState(publicURL, listen string, lookup func(string) (string, bool)) (string, error) {
	if publicURL != "" {
		return config.DefaultState("hub "+publicURL, false, lookup)
	}
	return config.DefaultState("hub "+listen, false, lookup)
}

// announce says on stdout where the hub is.
func (o *hubOptions) announce(f *hubserver.Front, listening string, access *admin.Access, publishToken string, io term.IO) error {
	sdnotify.Send(io.LookupEnv, sdnotify.Status(listen.ReadyPrefix+f.URL))
	status := access.Scheme() + "://" + listening + "/" + admin.PagesDir + "hub"
	if o.out.JSON {
		return io.PrintJSON(hubbing{URL: f.URL, Listen: listening, Status: status, State: withoutPassword(o.state),
			Admin: access.Address(), AdminTokenFile: access.TokenFile, PublishTokenFile: publishToken})
	}
	if o.out.Quiet {
		io.Printf("%s%s\n", listen.ReadyPrefix, f.URL)
		return nil
	}
	io.Printf("hub at %s\n", f.URL)
	access.Print(io)
	token := ""
	if publishToken != "" {
		io.Printf("  publish token    %s\n", publishToken)
		token = " --hub-token " + f.URL + "=" + admin.Quoted(publishToken)
	}
	io.Printf("  publish to it    lockstep serve DIR --hub %s%s\n", f.URL, token)
	io.Printf("%s%s\n", listen.ReadyPrefix, f.URL)
	return nil
}

// withoutPassword returns the state as it may be shown.
func withoutPassword(state string) string {
	if u, err := url.Parse(state); err == nil && strings.Contains(state, "://") {
		return u.Redacted()
	}
	return state
}
