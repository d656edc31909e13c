package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/network"
	"lockstep/destination"
	"lockstep/source"
)

// A demoMirror is the Destination of a demo: it follows the Source, whose hub
// calls it.
type demoMirror struct {
	*mirror.Run
	base     string // of the Source
	callback string // by which the hub reaches us
	hooks    atomic.Pointer[http.Handler]
	passes   chan demoPass
	follower *destination.Follower
	end      func() // ends following; nil: we do not follow
	ended    chan error
}

// A demoPass is the result of a pass of the mirror.
type demoPass struct {
	destination.Report
	err error
	at  time.Time
}

// openMirror opens the mirror, and serves the hub's requests to its callback
// until ctx ends. The channel receives a value when the server has ended.
func (d *demo) openMirror(ctx context.Context) (<-chan error, error) {
	sel := mirror.Selection{Source: d.base, Dest: d.mirror}
	network := network.Options{Proxy: network.NoProxy, Timeout: passLimit, Retries: 1}
	run, err := mirror.Open(ctx, "demo", &sel, &network, destination.Options{Dest: d.mirror, Logger: d.o.Out.Logger(d.io)}, false, d.io)
	if err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		run.Close()
		return nil, fmt.Errorf("listen: %w", err)
	}
	m := &demoMirror{Run: run, base: d.base, callback: "http://" + l.Addr().String() + "/", passes: make(chan demoPass, 64)}
	d.run = m
	srv := source.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := m.hooks.Load(); h != nil {
			(*h).ServeHTTP(w, r)
			return
		}
		http.Error(w, "not following", http.StatusServiceUnavailable)
	}))
	ended := make(chan error, 1)
	go func() {
		err := admin.ServeBeside(ctx, srv, l)
		if ctx.Err() != nil {
			err = nil
		}
		ended <- err
	}()
	return ended, nil
}

// follow begins to follow.
func (m *demoMirror) follow(ctx context.Context) (err error) {
	m.follower, err = m.Dest.Follow(m.base, destination.FollowOptions{
		Callback: m.callback, Channel: destination.ChannelHub,
		OnSync: func(r destination.Report, err error) {
			select {
			case m.passes <- demoPass{r, err, time.Now()}:
			default: // the demo has stopped reading
			}
		},
	})
	if err != nil {
		return err
	}
	h := m.follower.Handler()
	m.hooks.Store(&h)
	ctx, m.end = context.WithCancel(ctx)
	m.ended = make(chan error, 1)
	go func() { m.ended <- m.follower.Run(ctx) }()
	return nil
}

// rest ends following, if we do.
func (m *demoMirror) rest() error {
	if m.end == nil {
		return nil
	}
	m.end()
	m.end = nil
	return <-m.ended
}

// passLimit is how long a change may take until it is mirrored before the demo
// says that it failed: generous, for the machine may be busy.
const passLimit = 30 * time.Second

// await waits until the given number of changes is mirrored, and returns the
// totals of the passes until then, and when the last one ended.
func (m *demoMirror) await(ctx context.Context, changes int64) (sum destination.Report, at time.Time, err error) {
	limit := time.NewTimer(passLimit)
	defer limit.Stop()
	for at = time.Now(); sum.Created+sum.Updated+sum.Deleted < changes; {
		select {
		case p := <-m.passes:
			if p.err != nil {
				return sum, at, p.err
			}
			sum.Created, sum.Updated, sum.Deleted = sum.Created+p.Created, sum.Updated+p.Updated, sum.Deleted+p.Deleted
			sum.Via, at = p.Via, p.at
		case err := <-m.ended:
			m.ended <- err
			return sum, at, errors.Join(err, context.Cause(ctx))
		case <-limit.C:
			return sum, at, fmt.Errorf("not mirrored within %s", passLimit)
		case <-ctx.Done():
			return sum, at, context.Cause(ctx)
		}
	}
	return sum, at, nil
}

// channel describes how notifications arrive now, for people.
func (m *demoMirror) channel() (kind, hub string) {
	s := m.follower.Status()
	if len(s.Sets) == 0 {
		return "", ""
	}
	return s.Sets[0].Channel, s.Sets[0].Hub
}

// Close ends following and gives everything back.
func (m *demoMirror) Close() error {
	err := m.rest()
	m.Run.Close()
	return err
}
