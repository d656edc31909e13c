package admin

import (
	"net/http"
	"sync/atomic"
)

// A StartingHandler answers for a process that is not ready yet: the liveness
// check succeeds, and the answer to everything else is to retry in a second.
type StartingHandler struct {
	ready atomic.Pointer[http.Handler] // nil: still starting
}

// Set has all requests from now on answered by h.
func (s *StartingHandler) Set(h http.Handler) { s.ready.Store(&h) }

func (s *StartingHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := s.ready.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	if r.URL.Path == "/"+PagesDir+"healthz" {
		says(func() error { return nil }).ServeHTTP(w, r)
		return
	}
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	header.Set("Retry-After", "1")
	http.Error(w, "starting: try again in a second", http.StatusServiceUnavailable)
}
