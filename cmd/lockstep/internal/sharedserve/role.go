package sharedserve

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/forward"
	"lockstep/cmd/lockstep/internal/hubflags"
	"lockstep/cmd/lockstep/internal/hubserver"
	"lockstep/cmd/lockstep/internal/origins"
	"lockstep/cmd/lockstep/internal/site"
)

// A role is what the process is for some time: a standby or the publisher. Each has a site of its
// own, so that nothing that one remembers of documents and origins is believed by the next.
type role struct {
	site     site.Member
	logged   http.Handler                   // serves requests, and records them
	own      atomic.Pointer[forward.Target] // by which others reach this process; nil: it does not publish
	peer     *peer                          // the process that publishes; nil: this one does, or did
	paths    []string                       // of topics and of the repository
	conflict chan error                     // receives why the site must not be used any more
	requests sync.WaitGroup                 // that are being answered
	ended    chan struct{}                  // closed when the process has another role
}

func newRole() *role { return &role{conflict: make(chan error, 1), ended: make(chan struct{})} }

// serve answers a request of a client.
func (p *process) serve(r *role, w http.ResponseWriter, req *http.Request) {
	if r.own.Load() != nil || !p.isForPublisher(r, req) {
		r.answer(w, req)
		return
	}
	if r.peer != nil {
		if p.isCallback(req) && req.Method == http.MethodGet { // a hub asks only once, soon after another process has become the publisher
			_, _ = p.look(req.Context(), r, lookLeast) // without an answer, what was known before is true
		}
		if to, ended := r.peer.target(); to != nil {
			p.forwarder.Forward(w, req, to, ended)
			return
		}
	}
	forward.Refuse(w, "no process publishes at the moment; try again")
}

// answer answers a request here. A stream of events ends with the role: its client connects again, and
// gets the events of the next publisher.
func (r *role) answer(w http.ResponseWriter, req *http.Request) {
	if strings.Contains(req.Header.Get("Accept"), "text/event-stream") {
		ctx, cancel := context.WithCancel(req.Context())
		defer cancel()
		go func() {
			select {
			case <-r.ended:
				cancel()
			case <-ctx.Done():
			}
		}()
		req = req.WithContext(ctx)
	}
	r.site.Handler().ServeHTTP(w, req)
}

// isForPublisher reports whether only the process that publishes can answer a request: to change a set,
// to subscribe, for notifications, from hubs of upstreams, and to harvest by OAI-PMH, because the index
// for that is brought up to date by requests.
func (p *process) isForPublisher(r *role, req *http.Request) bool {
	path := req.URL.EscapedPath()
	rel, below := strings.CutPrefix(path, p.base)
	if !below {
		return false
	}
	return p.isAPI(r, rel) || p.isCallback(req) || slices.Contains(r.paths, path) || rel == hubserver.Path && p.hasHub()
}

// ServeHTTP implements [http.Handler].
func (p *process) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r := p.enter()
	defer r.requests.Done()
	if req = forward.Accept(w, req, r.own.Load()); req != nil {
		r.logged.ServeHTTP(w, req)
	}
}

// serveAdmin answers a request for administration.
func (p *process) serveAdmin(w http.ResponseWriter, req *http.Request) {
	r := p.enter()
	defer r.requests.Done()
	rel := strings.TrimPrefix(strings.TrimPrefix(req.URL.EscapedPath(), "/"), p.base[1:])
	if r.own.Load() == nil && p.isAPI(r, rel) && !strings.HasPrefix(rel, admin.PagesDir+hubserver.APIPath) { // a standby has no hub to manage
		forward.Refuse(w, "this process does not publish; send the request to the one that does, or with a token to any process")
		return
	}
	r.site.AdminHandler().ServeHTTP(w, req)
}

// isAPI reports whether a path below the base URL is one where sets are changed, or the hub is managed.
func (p *process) isAPI(r *role, rel string) bool {
	return strings.HasPrefix(rel, origins.APIDir) && (r.site.Describe().API != "" || p.hasHub())
}

// isCallback reports whether a request can be that of a hub of an upstream.
func (p *process) isCallback(req *http.Request) bool {
	return strings.HasPrefix(req.URL.EscapedPath(), p.base+origins.CallbackDir) && slices.ContainsFunc(p.Site.Sets, func(c config.Set) bool { return c.Origin.Kind.Scheme == "resourcesync" })
}

// hasHub reports whether the Source has a hub of its own.
func (p *process) hasHub() bool { return slices.Contains(p.Site.Hubs.URLs, hubflags.Embedded) }

// enter returns the present role, which a request is for.
func (p *process) enter() *role {
	p.mu.RLock()
	defer p.mu.RUnlock()
	p.role.requests.Add(1)
	return p.role
}

// present returns the present role.
func (p *process) present() *role {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.role
}

// become has the process take a role from the next request on, and closes the role before.
func (p *process) become(next *role) {
	p.mu.Lock()
	last := p.role
	p.role = next
	p.mu.Unlock()
	if last != nil {
		close(last.ended)
		p.closing.Go(func() { last.close(lastRequests) })
	}
}

// How long requests may take that are being answered when their role ends, and when the process does.
const (
	lastRequests = time.Minute
	stopRequests = time.Second
)

// disagree reports that another process has written a document.
func (r *role) disagree(err error) {
	select {
	case r.conflict <- err:
	default: // there is one already
	}
}

// close closes the site once its requests are answered.
func (r *role) close(patience time.Duration) {
	r.await(patience)
	if r.peer != nil {
		r.peer.close()
	}
	r.site.Close()
}

// await waits until the requests of the role are answered, or time is over.
func (r *role) await(patience time.Duration) {
	done := make(chan struct{})
	go func() {
		r.requests.Wait()
		close(done)
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// A peer is the process that publishes, as a standby sees it.
type peer struct {
	mu    sync.Mutex // guards what follows
	to    *forward.Target
	ended chan struct{} // closed when another process publishes, or none
	name  string
	since time.Time // of its lease
}

func newPeer() *peer { return &peer{ended: make(chan struct{})} }

// target returns where requests are forwarded to, nil if there is no publisher, and a
// channel that is closed when it no longer is that.
func (p *peer) target() (*forward.Target, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.to, p.ended
}

// publisher names the publisher, for people.
func (p *peer) publisher() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.name == "" {
		return "no process"
	}
	return p.name
}

// close ends what is being forwarded.
func (p *peer) close() { p.set("", time.Now(), nil) }

// set records which process publishes; to is nil as long as it is not known where it is reached.
func (p *peer) set(name string, since time.Time, to *forward.Target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !since.Equal(p.since) || name != p.name {
		close(p.ended)
		p.ended = make(chan struct{})
	}
	p.name, p.since, p.to = name, since, to
}
