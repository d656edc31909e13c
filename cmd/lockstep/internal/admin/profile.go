package admin

import (
	"fmt"
	"net/http"
	httpprof "net/http/pprof"
	"runtime/pprof"
	"strings"
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
	h := httpprof.Handler(name)
	switch name {
	case "":
		h = http.HandlerFunc(listProfiles)
	case "profile": // not "cmdline": flags can have passwords in them
		h = http.HandlerFunc(httpprof.Profile)
	case "trace":
		h = http.HandlerFunc(httpprof.Trace)
	}
	p.guard.Protect(h).ServeHTTP(w, r)
	return true
}

// listProfiles names the profiles.
func listProfiles(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	for _, p := range pprof.Profiles() {
		_, _ = fmt.Fprintln(w, p.Name()) // a client that has gone needs no answer
	}
	_, _ = fmt.Fprintln(w, "profile\ntrace") // likewise
}
