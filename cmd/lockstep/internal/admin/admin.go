// Package admin is what a long-running command offers to operators: the admin
// listener and its token, metrics, readiness and status pages, and the answer
// while the command is still starting.
package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"lockstep/cmd/lockstep/internal/certificate"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/connlimit"
	"lockstep/internal/fetch"
	"lockstep/internal/trust"
	"lockstep/source"
)

const (
	// AdminOff as --admin listens nowhere for administration.
	AdminOff = "off"
	// TokenName and PublishTokenName are the files of generated tokens in a
	// state directory.
	TokenName        = "admin-token"
	PublishTokenName = "publish-token"
)

// Flags are the flags that say how a process is administrated.
type Flags struct {
	Admin     string
	tokenFile string
}

// Declare declares the flags; what names what can be administrated.
func (o *Flags) Declare(flags *pflag.FlagSet, what string) {
	flags.StringVar(&o.Admin, "admin", "", "listen for administration ("+what+") at `ADDRESS`: unix:PATH, HOST:PORT, which takes the admin token, or off (default unix:admin.sock in the state directory)")
	flags.StringVar(&o.tokenFile, "admin-token-file", "", "the admin tokens are in `FILE`, one a line; they are good at --listen, too (default admin-token in the state directory, made where there is none)")
}

// settle refuses addresses that cannot be meant.
func (o *Flags) settle() error {
	if o.Admin == "" || o.Admin == AdminOff || strings.HasPrefix(o.Admin, "unix:") && o.Admin != "unix:" {
		return nil
	}
	if !term.IsHostPort(o.Admin) || strings.HasPrefix(o.Admin, "unix:") {
		return term.Usage(fmt.Errorf("--admin %q: want unix:PATH, HOST:PORT or off", o.Admin), "as --admin unix:/run/lockstep/admin.sock, or --admin 127.0.0.1:9090")
	}
	return nil
}

// Check reports settings that cannot be used, and token files that cannot be read.
// It opens and creates nothing.
func (o *Flags) Check() error {
	if err := o.settle(); err != nil {
		return err
	}
	_, err := o.givenTokens()
	return err
}

// givenTokens reads --admin-token-file; nil if there is none.
func (o *Flags) givenTokens() (*trust.Tokens, error) {
	if o.tokenFile == "" {
		return nil, nil
	}
	tokens, err := trust.ReadTokens(o.tokenFile)
	if err != nil {
		return nil, term.Usage(fmt.Errorf("--admin-token-file: %w", err), "")
	}
	return tokens, nil
}

// An Access is how a process is administrated: on a listener of its
// own, and with the admin token on the public one.
type Access struct {
	Guard     *trust.Guard
	listener  *trust.Listener   // nil: there is none
	tls       *certificate.Pair // of all listeners over TCP; nil: they do not speak TLS
	TokenFile string            // "": nothing takes the admin token
	given     string            // address of the listener, as in --admin
}

// Open listens for administration, with the files it needs in the directory
// state. The token is made where something takes one: a listener over TCP, or,
// with public, the public listener. A listener over TCP speaks TLS with tls, if that is not nil.
func (o *Flags) Open(ctx context.Context, state string, public bool, tls *certificate.Pair, io term.IO) (*Access, error) {
	a := &Access{TokenFile: o.tokenFile, tls: tls, given: o.Admin}
	if err := o.settle(); err != nil {
		return nil, err
	}
	var tokens *trust.Tokens
	var err error
	switch {
	case a.TokenFile != "":
		if tokens, err = o.givenTokens(); err != nil {
			return nil, err
		}
	case public || o.Admin != "" && !strings.HasPrefix(o.Admin, "unix:"):
		if a.TokenFile, err = filepath.Abs(filepath.Join(state, TokenName)); err != nil {
			return nil, err
		}
		if tokens, err = trust.MakeTokens(a.TokenFile); err != nil {
			return nil, term.WithHint(err, "remove the file; a new token is then created")
		}
	}
	a.Guard = trust.NewGuard(tokens)
	if a.listener, err = o.listen(ctx, state, io); err != nil {
		return nil, err
	}
	return a, nil
}

// listen opens the listener. An unavailable default is no reason not to
// start: some file systems have no sockets.
func (o *Flags) listen(ctx context.Context, state string, io term.IO) (*trust.Listener, error) {
	const remedy = "as --admin unix:/run/lockstep/admin.sock, --admin 127.0.0.1:9090, or --admin off"
	switch o.Admin {
	case AdminOff:
		return nil, nil
	case "":
		l, err := trust.ListenIn(ctx, state)
		if errors.Is(err, trust.ErrSocketInUse) {
			return nil, term.WithHint(fmt.Errorf("listen for administration: %w", err), "choose another address, "+remedy)
		}
		if err != nil {
			io.Errorf("warning: no admin socket: %v\nhint: choose an address for it, %s\n", err, remedy)
			return nil, nil
		}
		return l, nil
	}
	l, err := trust.Listen(ctx, o.Admin)
	switch {
	case errors.Is(err, trust.ErrSocketPath):
		return nil, term.Usage(fmt.Errorf("--admin %s: %w", o.Admin, err), "choose a shorter path, "+remedy)
	case err != nil:
		return nil, term.WithHint(fmt.Errorf("listen for administration at %s: %w", o.Admin, err), "choose another address, "+remedy)
	}
	return l, nil
}

// Close stops listening. It may be called more than once, and on nil.
func (a *Access) Close() {
	if a != nil && a.listener != nil {
		_ = a.listener.Close() // the server may have done so
	}
}

// Address returns where administration is listened for; "" if nowhere.
func (a *Access) Address() string {
	if a == nil || a.listener == nil {
		return ""
	}
	if a.tls != nil && a.listener.Socket() == "" {
		return a.Scheme() + "://" + a.listener.Address()
	}
	return a.listener.Address()
}

// Scheme returns that of URLs of the listeners of the process: http or https.
func (a *Access) Scheme() string { return a.tls.Scheme() }

// Trusts returns the guard of administration; nil if there is none.
func (a *Access) Trusts() *trust.Guard {
	if a == nil {
		return nil
	}
	return a.Guard
}

// Print says on stdout where and with which token the process is administrated.
func (a *Access) Print(io term.IO) {
	if address := a.Address(); address != "" {
		io.Printf("  administration   %s\n", address)
	}
	if a != nil && a.TokenFile != "" {
		io.Printf("  admin token      %s\n", a.TokenFile)
	}
}

// Curl returns the options with which curl sends a request like r, for people.
func (a *Access) Curl(r *http.Request) string {
	if trust.FromOwner(r) {
		return "--unix-socket " + Quoted(a.listener.Socket()) + " "
	}
	return `-H "Authorization: Bearer $TOKEN" `
}

// Quoted returns a path as a shell takes it.
func Quoted(path string) string {
	if strings.Trim(path, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/") == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// Serve serves administration by h until ctx ends.
func (a *Access) Serve(ctx context.Context, h http.Handler, log *slog.Logger) error {
	if a == nil || a.listener == nil {
		return nil
	}
	srv := source.NewServer(a.listener.Handler(h))
	srv.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	l := connlimit.New(a.listener, connections())
	if a.listener.Socket() == "" {
		l = a.tls.Over(l)
	}
	if err := ServeBeside(ctx, srv, l); err != nil && ctx.Err() == nil {
		return fmt.Errorf("administration: %w", err)
	}
	return nil
}

// maxConnections is how many connections administration takes at a time: files that
// it must not take from what the process is for.
const maxConnections = 64

// connections returns how many of them the files that may be open allow.
func connections() int {
	return min(maxConnections, max(connlimit.ForFiles(fetch.OpenFiles(), fetch.OwnFiles)/4, 2))
}

// ServeBeside serves on l while the tasks run, until ctx ends or one of them
// fails; then requests under way are finished, if they are quick about it.
func ServeBeside(ctx context.Context, srv *http.Server, l net.Listener, tasks ...func(context.Context) error) error {
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		<-gctx.Done()
		drain, cancel := context.WithTimeout(context.WithoutCancel(gctx), drainLimit)
		defer cancel()
		if err := srv.Shutdown(drain); err != nil {
			_ = srv.Close() // clients that are still reading have had their time
		}
		return nil
	})
	for _, task := range tasks {
		g.Go(func() error { return task(gctx) })
	}
	if err := g.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}

// drainLimit is how long requests under way may go on after the process is asked to stop.
const drainLimit = 5 * time.Second
