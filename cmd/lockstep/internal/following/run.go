package following

import (
	"context"
	"net"
	"net/http"
	"time"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/dashboard"
	"lockstep/cmd/lockstep/internal/listen"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/cmd/lockstep/internal/upstreams"
	"lockstep/destination"
	"lockstep/internal/fetch"
)

// Follow follows until ctx ends or the follower gives up. On l, if it is not nil, it
// serves what hubs call.
func (f *Run) Follow(ctx context.Context, follower *destination.Follower, client *fetch.Client, access *admin.Access, l net.Listener) error {
	f.link.attach(follower, client)
	f.admin = access
	board := dashboard.New(dashboard.Options{Name: "follow", State: f.memory, Activities: Activities(f.Work.Total), Process: f.Upstreams})
	about := f.about(board)
	remember := func(ctx context.Context) error { return board.Run(ctx, f.o.Out.Logger(f.io)) }
	serveAdmin := func(ctx context.Context) error {
		return f.admin.Serve(ctx, f.o.Requests.AdminHandler(about.Admin(nil)), f.o.Out.Logger(f.io))
	}
	alerts := func(ctx context.Context) error {
		return f.o.Alerts.Run(ctx, func() string {
			_, rows := f.Upstreams(time.Now())
			return upstreams.Failures(rows)
		})
	}
	if l == nil {
		return together(ctx, f.run, f.watch, serveAdmin, alerts, remember, f.o.Requests.Run)
	}
	f.address = listen.BaseURL(access.Scheme(), l.Addr(), term.Silent())
	return admin.ServeBeside(ctx, f.server(about), l, f.run, f.watch, serveAdmin, alerts, remember, f.o.Requests.Run)
}

// FollowBeside follows one of several mirrors until ctx ends or the follower gives up. It
// can be called again then.
func (f *Run) FollowBeside(ctx context.Context, follower *destination.Follower, r *mirror.Run) error {
	f.link.attach(follower, r.Client)
	f.mu.Lock()
	f.memory, f.lastRun = r.Memory(), r.Note()
	f.last, f.closed, f.tried = nil, false, false // it could be opened
	f.mu.Unlock()
	return together(ctx, f.run, f.watch)
}

// Hubs serves what hubs call for one of several mirrors.
func (f *Run) Hubs(w http.ResponseWriter, r *http.Request) {
	if o := f.link.open.Load(); o != nil {
		o.follower.Handler().ServeHTTP(w, r)
		return
	}
	w.Header().Set("Retry-After", "1")
	http.Error(w, "not ready", http.StatusServiceUnavailable)
}
