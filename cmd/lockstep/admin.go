package main

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

	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/trust"
	"lockstep/source"
)

const (
	// adminOff as --admin listens nowhere for administration.
	adminOff = "off"
	// adminTokenName and publishTokenName are the files of generated tokens in a
	// state directory.
	adminTokenName   = "admin-token"
	publishTokenName = "publish-token"
)

// adminOptions are the flags that say how a process is administrated.
type adminOptions struct {
	admin     string
	tokenFile string
}

// Declare declares the flags; what names what can be administrated.
func (o *adminOptions) declare(flags *pflag.FlagSet, what string) {
	flags.StringVar(&o.admin, "admin", "", "listen for administration ("+what+") at `ADDRESS`: unix:PATH, HOST:PORT, which takes the admin token, or off (default unix:admin.sock in the state directory)")
	flags.StringVar(&o.tokenFile, "admin-token-file", "", "the admin tokens are in `FILE`, one a line; they are good at --listen, too (default admin-token in the state directory, made where there is none)")
}

// settle refuses addresses that cannot be meant.
func (o *adminOptions) settle() error {
	if o.admin == "" || o.admin == adminOff || strings.HasPrefix(o.admin, "unix:") && o.admin != "unix:" {
		return nil
	}
	if i := strings.LastIndexByte(o.admin, ':'); i < 0 || strings.Contains(o.admin, "/") {
		return term.Usage(fmt.Errorf("--admin %q: want unix:PATH, HOST:PORT or off", o.admin), "as --admin unix:/run/lockstep/admin.sock, or --admin 127.0.0.1:9090")
	}
	return nil
}

// An administration is how a process is administrated: on a listener of its
// own, and with the admin token on the public one.
type administration struct {
	guard     *trust.Guard
	listener  *trust.Listener // nil: there is none
	tokenFile string          // "": nothing takes the admin token
}

// open listens for administration, with the files it needs in the directory
// state. The token is made where something takes one: a listener over TCP, or,
// with public, the public listener.
func (o *adminOptions) open(ctx context.Context, state string, public bool, io term.IO) (*administration, error) {
	a := &administration{tokenFile: o.tokenFile}
	if err := o.settle(); err != nil {
		return nil, err
	}
	var tokens *trust.Tokens
	var err error
	switch {
	case a.tokenFile != "":
		if tokens, err = trust.ReadTokens(a.tokenFile); err != nil {
			return nil, term.Usage(fmt.Errorf("--admin-token-file: %w", err), "")
		}
	case public || o.admin != "" && !strings.HasPrefix(o.admin, "unix:"):
		if a.tokenFile, err = filepath.Abs(filepath.Join(state, adminTokenName)); err != nil {
			return nil, err
		}
		if tokens, err = trust.MakeTokens(a.tokenFile); err != nil {
			return nil, term.WithHint(err, "remove the file, and a new token is made")
		}
	}
	a.guard = trust.NewGuard(tokens)
	if a.listener, err = o.listen(ctx, state, io); err != nil {
		return nil, err
	}
	return a, nil
}

// listen opens the listener. A default that cannot be had is no reason not to
// start: some file systems have no sockets.
func (o *adminOptions) listen(ctx context.Context, state string, io term.IO) (*trust.Listener, error) {
	const remedy = "as --admin unix:/run/lockstep/admin.sock, --admin 127.0.0.1:9090, or --admin off"
	switch o.admin {
	case adminOff:
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
	l, err := trust.Listen(ctx, o.admin)
	switch {
	case errors.Is(err, trust.ErrSocketPath):
		return nil, term.Usage(fmt.Errorf("--admin %s: %w", o.admin, err), "choose a shorter path, "+remedy)
	case err != nil:
		return nil, term.WithHint(fmt.Errorf("listen for administration at %s: %w", o.admin, err), "choose another address, "+remedy)
	}
	return l, nil
}

// Close stops listening. It may be called more than once, and on nil.
func (a *administration) Close() {
	if a != nil && a.listener != nil {
		_ = a.listener.Close() // the server may have done so
	}
}

// Address returns where administration is listened for; "" if nowhere.
func (a *administration) address() string {
	if a == nil || a.listener == nil {
		return ""
	}
	return a.listener.Address()
}

// trusts returns the guard of administration; nil if there is none.
func (a *administration) trusts() *trust.Guard {
	if a == nil {
		return nil
	}
	return a.guard
}

// print says on stdout where and with which token the process is administrated.
func (a *administration) print(io term.IO) {
	if address := a.address(); address != "" {
		io.Printf("  administration   %s\n", address)
	}
	if a != nil && a.tokenFile != "" {
		io.Printf("  admin token      %s\n", a.tokenFile)
	}
}

// curl returns the options with which curl sends a request like r, for people.
func (a *administration) curl(r *http.Request) string {
	if trust.FromOwner(r) {
		return "--unix-socket " + quoted(a.listener.Socket()) + " "
	}
	return `-H "Authorization: Bearer $TOKEN" `
}

// quoted returns a path as a shell takes it.
func quoted(path string) string {
	if strings.Trim(path, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/") == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// serve serves administration by h until ctx ends.
func (a *administration) serve(ctx context.Context, h http.Handler, log *slog.Logger) error {
	if a == nil || a.listener == nil {
		return nil
	}
	srv := source.NewServer(a.listener.Handler(h))
	srv.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	if err := serveBeside(ctx, srv, a.listener); err != nil && ctx.Err() == nil {
		return fmt.Errorf("administration: %w", err)
	}
	return nil
}

// serveBeside serves on l while the tasks run, until ctx ends or one of them
// fails; then requests under way are finished, if they are quick about it.
func serveBeside(ctx context.Context, srv *http.Server, l net.Listener, tasks ...func(context.Context) error) error {
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
			_ = srv.Close() // who is still reading has had its time
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
