package sharedserve

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/cmd/lockstep/internal/forward"
	"lockstep/cmd/lockstep/internal/site"
)

// A role is what the process is for some time: a standby or the publisher. Each has a site of its
// own, so that nothing that one remembers of documents and origins is believed by the next.
type role struct {
	site     *site.Site
	logged   http.Handler                   // serves requests, and records them
	own      atomic.Pointer[forward.Target] // by which others reach this process; nil: it does not publish
	peer     *peer                          // the process that publishes; nil: this one does, or did
	conflict chan error                     // receives why the site must not be used any more
	requests sync.WaitGroup                 // that are being answered
}

// serve answers a request of a client.
func (p *process) serve(r *role, w http.ResponseWriter, req *http.Request) {
	if r.own.Load() != nil || !r.site.IsForPublisher(req) {
		r.site.Handler().ServeHTTP(w, req)
		return
	}
	if r.peer != nil {
		if to, term := r.peer.target(); to != nil {
			p.forwarder.Forward(term, w, req, to)
			return
		}
	}
	forward.Refuse(w, "no process publishes at the moment; try again")
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
	r.site.AdminHandler().ServeHTTP(w, req)
}

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
		p.closing.Go(func() { last.close(lastRequests) })
	}
}

// How long requests may take that are being answered when their role ends, and when the process does.
const (
	lastRequests = time.Minute
	stopRequests = time.Second
)

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
	term  context.Context
	end   context.CancelFunc // of term; may be called again
	name  string
	since time.Time // of its lease
}

func newPeer() *peer {
	p := &peer{}
	p.term, p.end = context.WithCancel(context.Background())
	return p
}

// target returns where requests are forwarded to, nil if there is no publisher, and the
// context in which it is that.
func (p *peer) target() (*forward.Target, context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.to, p.term
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
func (p *peer) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end()
}

// set records which process publishes; to is nil as long as it is not known where it is reached.
func (p *peer) set(name string, since time.Time, to *forward.Target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !since.Equal(p.since) || name != p.name {
		p.end()
		p.term, p.end = context.WithCancel(context.Background())
	}
	p.name, p.since, p.to = name, since, to
}
