package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"time"

	"lockstep/destination"
	"lockstep/source"
)

// What follow serves besides what hubs call.
const (
	healthPath       = "/-/healthz"
	readyPath        = "/-/readyz"
	followStatusPath = "/-/api/v1/follow"
)

// server serves what hubs call, and how it goes.
func (f *following) server() *http.Server {
	m := newMetrics()
	m.register(f.figures)
	hubs := f.follower.Handler()
	own := map[string]http.Handler{
		"/" + metricsPath: m.handler(),
		healthPath:        http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") }),
		readyPath:         http.HandlerFunc(f.serveReady),
		followStatusPath:  http.HandlerFunc(f.serveStatus),
	}
	srv := source.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, ok := own[r.URL.Path]
		switch {
		case !ok:
			hubs.ServeHTTP(w, r)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		default:
			h.ServeHTTP(w, r)
		}
	}))
	srv.ErrorLog = slog.NewLogLogger(f.o.out.logger(f.io).Handler(), slog.LevelDebug)
	return srv
}

// serveReady answers whether the first sync is done.
func (f *following) serveReady(w http.ResponseWriter, _ *http.Request) {
	if !f.isReady() {
		http.Error(w, "the first sync is not done yet", http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintln(w, "ready") // who has gone need not know
}

// A followState is what follow answers when asked how it goes.
type followState struct {
	Version  string                          `json:"version"`
	Ready    bool                            `json:"ready"`
	Since    time.Time                       `json:"since"`
	Result   followResult                    `json:"result"`
	Progress map[string]destination.Progress `json:"progress,omitempty"` // by set, of the pass under way or the last
}

// serveStatus answers how it goes.
func (f *following) serveStatus(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(f.state()) // who has gone need not know
}

// state returns how it goes; what it holds is the caller's.
func (f *following) state() followState {
	status := f.follower.Status()
	f.mu.Lock()
	defer f.mu.Unlock()
	return followState{
		Version: version(), Ready: f.ready, Since: f.started, Result: f.result(&status, nil), Progress: maps.Clone(f.progress),
	}
}

// result is what it all came to so far. f.mu is held; what it holds is the
// caller's.
func (f *following) result(status *destination.FollowStatus, err error) followResult {
	sum := f.tally.copy()
	sum.Source, sum.Destination = f.o.source, f.o.dest
	if sum.Mode == "" {
		sum.Mode = destination.ModeNone
	}
	sum.SyncedUntil = syncedUntil(status)
	return followResult{
		Report: &sum.Report, Passes: sum.Passes, PassesFailed: sum.Failing,
		Followed: time.Since(f.started).Seconds(), Follow: *status, Error: errorText(err),
	}
}
