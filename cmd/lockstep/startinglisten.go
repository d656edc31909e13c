package main

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/internal/connlimit"
	"lockstep/source"
)

// startingDrain is how long requests may take that are being answered when a
// process has started.
const startingDrain = time.Second

// answerStarting answers the clients of l while a process starts: that it lives, and
// that everything else is to be asked for again. The returned function ends that, and
// leaves l to another server.
func answerStarting(l net.Listener, log *slog.Logger) (stop func()) {
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
		_ = srv.Serve(&lentListener{l, tcp}) // it ends when it is shut down, or the process with l
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
