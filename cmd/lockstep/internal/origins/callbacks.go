package origins

import (
	"net/http"
	"net/url"
	"strings"
	"sync"

	"lockstep/cmd/lockstep/internal/listen"
	"lockstep/discover"
)

// callbackName is where hubs of upstreams call, below the pages of the process.
const callbackName = "callback/"

// CallbackDir is the same, below the base URL.
const CallbackDir = "-/" + callbackName

// Callbacks serves what hubs of upstreams call. Its methods accept a nil receiver: no hub
// is used then.
type Callbacks struct {
	mu       sync.RWMutex            // guards handlers
	handlers map[string]http.Handler // by path
}

// address returns the URL that hubs of an upstream call, or "" if they cannot: a hub on
// another machine does not reach a Source whose base URL is that of this machine only.
func (c *Callbacks) address(base, upstream, name string) string {
	here, err := url.Parse(base)
	if c == nil || err != nil {
		return ""
	}
	there := discover.Home(upstream)
	if listen.IsLoopback(here.Hostname()) && (there == nil || !listen.IsLoopback(there.Hostname())) {
		return ""
	}
	return base + CallbackDir + name + "/"
}

// add serves requests to a URL, and below it, by h.
func (c *Callbacks) add(address string, h http.Handler) {
	u, err := url.Parse(address)
	if address == "" || err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handlers == nil {
		c.handlers = make(map[string]http.Handler)
	}
	c.handlers[u.EscapedPath()] = h
}

// remove ends serving requests to a URL that add was given.
func (c *Callbacks) remove(address string) {
	u, err := url.Parse(address)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.handlers, u.EscapedPath())
}

// Serve answers a request of a hub, and reports whether r is one.
func (c *Callbacks) Serve(w http.ResponseWriter, r *http.Request) bool {
	path := r.URL.EscapedPath()
	if c == nil || !strings.Contains(path, "/"+CallbackDir) {
		return false
	}
	h := c.find(path)
	if h != nil {
		h.ServeHTTP(w, r)
	}
	return h != nil
}

// RefuseCallback answers a request of no hub below dir, the path of the pages of the process,
// and reports whether r is one. The answer is that of an upstream to a hub that it does
// not know: it does not show which sets have upstreams.
func RefuseCallback(w http.ResponseWriter, r *http.Request, dir string) bool {
	if !strings.HasPrefix(r.URL.EscapedPath(), dir+callbackName) {
		return false
	}
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	if r.ContentLength != 0 {
		header.Set("Connection", "close") // the body is not read
	}
	w.WriteHeader(http.StatusNotFound)
	return true
}

// find returns what serves requests to a path, or nil.
func (c *Callbacks) find(path string) http.Handler {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for at := len(path); at > 0; at = strings.LastIndexByte(path[:at-1], '/') + 1 {
		if h, ok := c.handlers[path[:at]]; ok {
			return h
		}
	}
	return nil
}
