// Package listen opens the addresses at which commands serve: for as many connections
// as files may be open, and with an answer for clients while the process starts.
package listen

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/certificate"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/connlimit"
	"lockstep/internal/fetch"
	"lockstep/source"
)

// ReadyPrefix begins the line that scripts wait for: it says that a Source is
// being served, and at which URL.
const ReadyPrefix = "ready: "

// spareFiles are kept free beside the connections of a server: for one that waits for
// a place, for administration, and for the directories on the way to a file.
const spareFiles = 4

// Connections returns how many connections a server of ours holds at a time.
func Connections() int {
	return connlimit.ForFiles(fetch.OpenFiles(), fetch.OwnFiles+spareFiles)
}

// Open opens the address of --listen, for as many connections at a time as the
// files that may be open allow.
func Open(ctx context.Context, address string) (net.Listener, error) {
	if !term.IsHostPort(address) {
		return nil, term.Usage(fmt.Errorf("--listen %q: want HOST:PORT", address), "as 127.0.0.1:8080, or :8080 for every address of this machine")
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, term.WithHint(fmt.Errorf("listen on %s: %w", address, errors.Unwrap(err)), "choose another address with --listen; port 0 takes a free one")
	}
	return connlimit.New(l, Connections()), nil
}

// BaseURL returns the base URL of a Source that was not given one: that of its listener,
// with the scheme http or https.
func BaseURL(scheme string, addr net.Addr, io term.IO) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return scheme + "://" + addr.String() + "/"
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		io.Errorf("warning: other machines cannot use the addresses in our documents, which name %s\nhint: give the name of this machine in the network: --base-url %s://NAME:%s/\n", host, scheme, port)
	}
	u := url.URL{Scheme: scheme, Host: net.JoinHostPort(host, port), Path: "/"}
	return u.String()
}

// IsLoopback reports whether a host is this machine, as seen from itself.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// startingDrain is how long requests may take that are being answered when a
// process has started.
const startingDrain = time.Second

// AnswerStarting answers the clients of l while a process starts: that it lives, and
// that everything else is to be asked for again. tls, if not nil, is what they are to find
// there. The returned function ends that, and leaves l to another server.
func AnswerStarting(l net.Listener, tls *certificate.Pair, log *slog.Logger) (stop func()) {
	below := l
	if limited, ok := l.(*connlimit.Listener); ok {
		below = limited.Listener
	}
	tcp, ok := below.(*net.TCPListener)
	if !ok {
		return func() {} // clients wait
	}
	srv := source.NewServer(&admin.StartingHandler{})
	srv.SetKeepAlivesEnabled(false) // the next request is for another server
	srv.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = srv.Serve(tls.Over(&lentListener{l, tcp})) // it ends when it is shut down, or the process with l
	}()
	return sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startingDrain)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			_ = srv.Close() // these clients try again
		}
		<-ended
		_ = tcp.SetDeadline(time.Time{}) // where l is closed, the next server says so
	})
}

// A lentListener is a listener that stays open when the server it was lent to closes
// it: only Accept ends.
type lentListener struct {
	net.Listener
	tcp *net.TCPListener
}

// Close implements [net.Listener].
func (l *lentListener) Close() error { return l.tcp.SetDeadline(time.Unix(1, 0)) }
