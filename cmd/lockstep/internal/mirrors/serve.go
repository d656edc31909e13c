package mirrors

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/dashboard"
	"lockstep/cmd/lockstep/internal/following"
	"lockstep/cmd/lockstep/internal/recent"
	"lockstep/cmd/lockstep/internal/release"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/cmd/lockstep/internal/upstreams"
	"lockstep/source"
)

// serve follows the mirrors until ctx ends, and serves the pages of the process and, on l,
// unless it is nil, what hubs call.
func (g *group) serve(ctx context.Context, l net.Listener, entries []*entry, signals <-chan os.Signal) error {
	log := g.one.Sync.Out.Logger(g.io)
	board := dashboard.New(dashboard.Options{Name: "follow", State: g.state, Activities: following.Activities(g.work), Process: g.upstreams})
	about := g.about()
	about.Dashboard(g.access, board)
	remember := func(ctx context.Context) error { return board.Run(ctx, log) }
	follow := func(ctx context.Context) error { return g.run(ctx, entries, signals) }
	administrate := func(ctx context.Context) error {
		return g.access.Serve(ctx, g.requests.AdminHandler(about.Admin(nil)), log)
	}
	alerts := func(ctx context.Context) error { return g.alerts.Run(ctx, g.failures) }
	if l != nil {
		srv := source.NewServer(g.requests.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !about.Serve(w, r) {
				g.hubs(w, r)
			}
		})))
		srv.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
		return admin.ServeBeside(ctx, srv, l, follow, administrate, alerts, remember, g.requests.Run)
	}
	tasks, tctx := errgroup.WithContext(ctx)
	for _, task := range []func(context.Context) error{follow, administrate, alerts, remember, g.requests.Run} {
		tasks.Go(func() error { return task(tctx) })
	}
	if err := tasks.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}

// failures returns a line for each set that cannot be brought into step, "" if all can.
func (g *group) failures() string {
	_, rows := g.upstreams(time.Now())
	return upstreams.Failures(rows)
}

// hubs serves what a hub calls for the mirror that the path names.
func (g *group) hubs(w http.ResponseWriter, r *http.Request) {
	name := path.Base(path.Dir(r.URL.Path))
	for _, m := range g.all() {
		if m.name == name {
			m.run.Hubs(w, r)
			return
		}
	}
	http.NotFound(w, r)
}

// about returns the pages of the process.
func (g *group) about() *admin.Pages {
	m := g.access.Metrics()
	m.Register(g.figures)
	m.Register(g.requests.Figures)
	p := admin.NewPages("/", g.access.Guard, m, g.whyNotReady)
	p.Detail = g.notInStep
	p.Protect(following.StatusPath, following.ServeState(func() any { return g.report() }))
	p.Protect(upstreams.Path, upstreams.Handler(g.upstreams))
	return p
}

// work returns what was applied to all mirrors.
func (g *group) work() (all recent.Total) {
	for _, m := range g.all() {
		one := m.run.Work.Total()
		all.Add(&one)
	}
	return all
}

// whyNotReady returns why not all mirrors have been tried once yet.
func (g *group) whyNotReady() error {
	if !g.isReady() {
		return following.ErrFirstSync
	}
	return nil
}

// notInStep counts the mirrors that have not been in step yet.
func (g *group) notInStep() string {
	n, all := 0, g.all()
	for _, m := range all {
		if !m.run.IsReady() {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %s not in step yet\n", n, term.Count(len(all), "mirror"))
}

// figures reports to monitors all that is known about the mirrors.
func (g *group) figures(s *admin.Figures) {
	for _, m := range g.all() {
		m.run.Figures(s.With("mirror", m.name))
	}
}

// A state is what follow --config answers when asked for its status.
type state struct {
	Version string            `json:"version"`
	Ready   bool              `json:"ready"`
	Since   time.Time         `json:"since"`
	Mirrors []following.State `json:"mirrors"`
}

// report returns the state of all mirrors.
func (g *group) report() state {
	s := state{Version: release.Version(), Ready: g.isReady(), Since: g.started, Mirrors: []following.State{}}
	for _, m := range g.all() {
		s.Mirrors = append(s.Mirrors, m.run.State())
	}
	return s
}

// upstreams returns what is known of the sets of all mirrors.
func (g *group) upstreams(now time.Time) (upstreams.Process, []upstreams.Row) {
	all := g.all()
	p := upstreams.Process{Kind: upstreams.Follow, Mirrors: len(all)}
	var rows []upstreams.Row
	for _, m := range all {
		one, sets := m.run.Upstreams(now)
		for i := range sets {
			sets[i].Mirror = m.name
		}
		p.Sets += one.Sets
		rows = append(rows, sets...)
	}
	return p, rows
}
