package admin

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"strings"
	"time"
)

// ProfilesDir is where the profiles of the process are, below [PagesDir]: of memory,
// goroutines and processor time, as go tool pprof reads them.
const ProfilesDir = "debug/pprof/"

// profile answers requests for a profile that the administrator makes, and reports
// whether it was one.
func (p *Pages) profile(w http.ResponseWriter, r *http.Request) bool {
	name, ok := strings.CutPrefix(r.URL.EscapedPath(), p.Dir+ProfilesDir)
	if !ok {
		return false
	}
	var h http.Handler
	switch name {
	case "":
		h = http.HandlerFunc(listProfiles)
	case "profile":
		h = &recording{start: pprof.StartCPUProfile, stop: pprof.StopCPUProfile, takes: 30 * time.Second}
	case "trace":
		h = &recording{start: trace.Start, stop: trace.Stop, takes: time.Second}
	default: // not "cmdline": flags can have passwords in them
		h = snapshot(name)
	}
	p.guard.Protect(h).ServeHTTP(w, r)
	return true
}

// A snapshot is the name of a profile of what is there now. With debug=N it is sent as
// text, with gc=1 garbage is collected first.
type snapshot string

// ServeHTTP implements [http.Handler].
func (s snapshot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := pprof.Lookup(string(s))
	if p == nil {
		http.Error(w, "Unknown profile", http.StatusNotFound)
		return
	}
	if r.FormValue("gc") == "1" {
		runtime.GC()
	}
	debug, _ := strconv.Atoi(r.FormValue("debug")) // by default 0: for go tool pprof
	w.Header().Set("Content-Type", "application/octet-stream")
	if debug > 0 {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	}
	_ = p.WriteTo(w, debug) // a client that has gone needs no answer
}

// A recording is a profile of what happens for a time, of seconds=N.
type recording struct {
	start func(io.Writer) error
	stop  func()
	takes time.Duration // by default
}

// ServeHTTP implements [http.Handler].
func (p *recording) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	takes := p.takes
	if n, err := strconv.ParseFloat(r.FormValue("seconds"), 64); err == nil && n > 0 && n <= maxRecording.Seconds() {
		takes = time.Duration(n * float64(time.Second))
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(takes + time.Minute)) // where it cannot be set, it is that of the server
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := p.start(w); err != nil {
		http.Error(w, "record a profile: "+err.Error(), http.StatusInternalServerError)
		return
	}
	defer p.stop()
	select {
	case <-time.After(takes):
	case <-r.Context().Done():
	}
}

// maxRecording is the longest time that is recorded.
const maxRecording = time.Hour

// listProfiles names the profiles.
func listProfiles(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	for _, p := range pprof.Profiles() {
		_, _ = fmt.Fprintln(w, p.Name()) // a client that has gone needs no answer
	}
	_, _ = fmt.Fprintln(w, "profile\ntrace") // likewise
}
