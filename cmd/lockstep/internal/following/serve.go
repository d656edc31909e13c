package following

import (
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/dashboard"
	"lockstep/cmd/lockstep/internal/release"
	"lockstep/cmd/lockstep/internal/report"
	"lockstep/cmd/lockstep/internal/upstreams"
	"lockstep/destination"
	"lockstep/internal/fetch"
	"lockstep/source"
)

// StatusPath is where follow serves its status, below its pages.
const StatusPath = "api/v1/follow"

// about returns the pages of a process that follows.
func (f *Run) about(board *dashboard.Dashboard) *admin.Pages {
	m := f.admin.Metrics()
	m.Register(f.Figures)
	m.Register(f.o.Requests.Figures)
	p := admin.NewPages("/", f.admin.Guard, m, func() error { return readiness(f) })
	p.Protect(StatusPath, ServeState(func() any { return f.State() }))
	p.Protect(upstreams.Path, upstreams.Handler(f.Upstreams))
	p.Dashboard(f.admin, board)
	return p
}

// Upstreams returns what is known of the sets that are followed.
func (f *Run) Upstreams(now time.Time) (upstreams.Process, []upstreams.Row) {
	status := f.status()
	f.mu.Lock()
	hint := f.hint
	f.mu.Unlock()
	return upstreams.Process{Kind: upstreams.Follow, Destination: f.o.Dest, Sets: len(status.Sets)}, upstreams.FromFollower(&status, fetch.WithoutUser(f.o.Source), hint, now)
}

// server serves what hubs call, and the pages.
func (f *Run) server(about *admin.Pages) *http.Server {
	hubs := f.link.open.Load().follower.Handler()
	srv := source.NewServer(f.o.Requests.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !about.Serve(w, r) {
			hubs.ServeHTTP(w, r)
		}
	})))
	srv.ErrorLog = slog.NewLogLogger(f.o.Out.Logger(f.io).Handler(), slog.LevelDebug)
	return srv
}

// A State is what follow answers when asked for its status.
type State struct {
	Version  string                          `json:"version"`
	Ready    bool                            `json:"ready"`
	Since    time.Time                       `json:"since"`
	Result   Result                          `json:"result"`
	Progress map[string]destination.Progress `json:"progress,omitempty"` // by set, of the pass under way or the last
}

// ServeState answers with the current state as JSON.
func ServeState(state func() any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD are allowed", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(state()) // a client that has disconnected needs no answer
	})
}

// State returns the current state; the caller owns the result.
func (f *Run) State() State {
	status := f.status()
	f.mu.Lock()
	defer f.mu.Unlock()
	return State{
		Version: release.Version(), Ready: f.ready, Since: f.started, Result: f.result(&status, nil), Progress: maps.Clone(f.progress),
	}
}

// result returns the totals so far. f.mu is held; the result does not share
// memory with f.
func (f *Run) result(status *destination.FollowStatus, err error) Result {
	sum := f.tally.Copy()
	sum.Source, sum.Destination = fetch.WithoutUser(f.o.Source), f.o.Dest
	if sum.Mode == "" {
		sum.Mode = destination.ModeNone
	}
	sum.SyncedUntil, sum.Sets, sum.Pending = syncedUntil(status), []string{}, 0
	for i := range status.Sets {
		sum.Pending += status.Sets[i].Pending
		sum.Sets = append(sum.Sets, status.Sets[i].URI)
	}
	sum.Complete, sum.Unproven = status.Complete && err == nil, unprovenOf(status)
	return Result{
		Name: f.o.Name, Report: &sum.Report, Passes: sum.Passes, PassesFailed: sum.Failing,
		Followed: time.Since(f.started).Seconds(), Follow: *status, Error: report.ErrorText(err),
	}
}

// unprovenOf returns why the mirror is not known to be complete.
func unprovenOf(s *destination.FollowStatus) []destination.Unproven {
	all := slices.Clone(s.Unproven)
	for i := range s.Sets {
		all = append(all, s.Sets[i].Unproven...)
	}
	return all
}
