// Package sharedserve runs a Source as one of several processes that share a state in PostgreSQL and
// documents in a bucket, behind any load balancer. The process that owns the database publishes. The
// others are standbys: they serve what is published, forward to it what only it can answer, and look
// several times a second whether the database is free; then one of them publishes.
//
// A publisher that loses the database, because it was paused or cut off for longer than its lease,
// becomes a standby. What it was about to write is refused: by the database, which checks its lease in
// each transaction, and by the bucket, which replaces documents under conditions ([fence.Store]).
package sharedserve

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/blob/fence"
	"lockstep/cmd/lockstep/internal/accesslog"
	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/alert"
	"lockstep/cmd/lockstep/internal/forward"
	"lockstep/cmd/lockstep/internal/site"
	"lockstep/cmd/lockstep/internal/sourcereport"
	"lockstep/cmd/lockstep/internal/stateplace"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/source"
	"lockstep/storage/postgres"
)

// Options describe the process.
type Options struct {
	Site    site.Options // checked and locked
	Address string       // at which other processes reach its listener, HOST:PORT
	Watch   bool
	Report  *sourcereport.Reporter
	Alerts  *alert.Service

	// Start is called before the process begins to serve, with its first site. published is nil if it is
	// a standby, of the publisher with that name.
	Start func(s *site.Site, published *site.Publication, publisher string) error
}

// A process is one of several that share a state.
type process struct {
	Options
	access    *admin.Access
	requests  *accesslog.Log
	forwarder *forward.Forwarder
	base      string // path of the base URL
	log       *slog.Logger
	closing   sync.WaitGroup         // of roles that have ended
	failure   atomic.Pointer[string] // why this process could not publish although no other one does; nil: it was not tried, or could

	pause  time.Duration // after the last term, which has failed; see rest
	rested time.Time     // when this process may publish again

	mu   sync.RWMutex // guards role
	role *role
}

// Run serves on l until ctx ends. It takes over the lock of the state.
func Run(ctx context.Context, l net.Listener, o Options) error {
	defer o.Site.Release()
	p := &process{Options: o, log: o.Site.Log}
	p.Site.Release = func() {} // it is locked as long as the process runs
	var err error
	if p.requests, p.access, err = o.Site.OpenShared(ctx); err != nil {
		return err
	}
	defer p.requests.Close()
	defer p.access.Close()
	if err := p.openForwarder(); err != nil {
		return err
	}
	defer p.forwarder.Close()
	if err := p.begin(ctx); err != nil {
		return err
	}
	defer p.closing.Wait()
	defer func() { p.present().close(stopRequests) }()
	srv := source.NewServer(p)
	srv.ErrorLog = slog.NewLogLogger(p.log.Handler(), slog.LevelDebug)
	if pair := p.Site.Embedding.TLS; pair != nil {
		l = pair.Over(l)
	} else {
		l = source.NewFront(l, p, func() *source.Source { return p.present().site.Source() })
	}
	return admin.ServeBeside(ctx, srv, l, p.takeTurns, p.requests.Run,
		func(ctx context.Context) error {
			return p.access.Serve(ctx, p.requests.AdminHandler(http.HandlerFunc(p.serveAdmin)), p.log)
		},
		func(ctx context.Context) error {
			return p.Alerts.Run(ctx, p.problem)
		})
}

// problem returns what is wrong with the Source; "" if all is well.
func (p *process) problem() string {
	problem := p.present().site.Problem()
	if failure := p.failure.Load(); failure != nil {
		problem += *failure + "\n"
	}
	return problem
}

// openForwarder makes what forwards requests. A publisher that speaks TLS has a certificate for the
// host of the base URL.
func (p *process) openForwarder() error {
	base, err := url.Parse(p.Site.BaseURL)
	if err != nil {
		return term.Usage(err, "")
	}
	p.base = strings.TrimSuffix(base.EscapedPath(), "/") + "/"
	roots, err := p.Site.Network.Certificates()
	if err != nil {
		return err
	}
	p.forwarder = forward.New(base.Hostname(), &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, p.log)
	return nil
}

// begin takes the first role.
func (p *process) begin(ctx context.Context) error {
	r, err := p.openPublisher(ctx)
	if isOwned(err) {
		if r, err = p.openStandby(ctx); err == nil {
			err = p.Start(r.site.Site, nil, r.peer.publisher())
		}
	} else if err == nil {
		err = p.publishFirst(ctx, r)
	}
	if err != nil {
		if r != nil {
			r.close(0)
		}
		return err
	}
	p.become(r)
	return nil
}

// publishFirst publishes before the process serves, as one does that is alone: there may be no
// documents yet.
func (p *process) publishFirst(ctx context.Context, r *role) error {
	owned, done := r.site.WhileOwned(ctx)
	defer done()
	stop := term.ShowProgress(p.Report.IO, p.Report.Quiet, p.Report.Line)
	published, err := r.site.PublishOnce(owned, p.Report)
	stop()
	if err != nil {
		return stateplace.Cause(owned, err)
	}
	if err := published.Failed(); err != nil {
		p.Report.Warn(err)
	}
	r.site.WarnOfAccess(ctx, p.Report)
	return p.Start(r.site.Site, &published, "")
}

// isOwned reports whether an error says that another process publishes.
func isOwned(err error) bool {
	_, ok := errors.AsType[*postgres.OwnedError](err)
	return ok
}

// publisherNote is where the process that publishes says how others reach it.
const publisherNote = "publisher.json"

// A note is what it says.
type note struct {
	forward.Target
	BaseURL string `json:"base_url"`
}

// openPublisher makes the process the owner of the database, with a site that publishes. The error wraps
// a [postgres.OwnedError] if another process is.
func (p *process) openPublisher(ctx context.Context) (*role, error) {
	r := newRole()
	o := p.Site
	o.Shared = &site.Shared{Access: p.access, Requests: p.requests, Fence: func(docs fence.Base, db *stateplace.Database) *fence.Store {
		return fence.New(docs, db.CheckOwner, r.disagree)
	}}
	s, err := site.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	p.equip(r, s)
	db := r.site.Database()
	own := forward.NewTarget(p.Address, p.Site.Embedding.TLS != nil, termOf(db.OwnedSince()))
	text, err := json.Marshal(note{*own, p.Site.BaseURL})
	if err == nil {
		err = db.State.Notes.Save(publisherNote, text)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("announce this process to the others: %w", err)
	}
	r.own.Store(own)
	return r, nil
}

// equip gives a role its site.
func (p *process) equip(r *role, s *site.Site) {
	r.site = site.Member{Site: s}
	addresses := []string{r.site.Describe().OAI}
	for _, c := range r.site.Source().Channels() {
		addresses = append(addresses, c.Topic)
	}
	for _, address := range addresses {
		if u, err := url.Parse(address); err == nil && address != "" {
			r.paths = append(r.paths, u.EscapedPath())
		}
	}
	r.logged = p.requests.Handler(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { p.serve(r, w, req) }))
}

// errStandby refuses what only the process that publishes may write.
var errStandby = errors.New("another process publishes")

// openStandby opens a site that serves what another process publishes.
func (p *process) openStandby(ctx context.Context) (*role, error) {
	r := newRole()
	r.peer = newPeer()
	o := p.Site
	o.Shared = &site.Shared{Standby: true, Access: p.access, Requests: p.requests, Publisher: r.peer.publisher, Fence: func(docs fence.Base, _ *stateplace.Database) *fence.Store {
		return fence.New(docs, func(context.Context) error { return errStandby }, func(error) {})
	}}
	s, err := site.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	p.equip(r, s)
	if _, err := p.look(ctx, r, lookMost); err != nil {
		s.Close()
		return nil, err
	}
	p.lookAtDocuments(ctx, r)
	return r, nil
}

// termOf returns the name of the term of a publisher.
func termOf(since time.Time) string { return strconv.FormatInt(since.UnixMicro(), 36) }

// look finds out within a time which process publishes, and whether none does.
func (p *process) look(ctx context.Context, r *role, within time.Duration) (free bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	db := r.site.Database()
	lease, err := db.Lease(ctx)
	switch {
	case err != nil:
		return false, err
	case !lease.Held:
		r.peer.set("", lease.Since, nil)
		return true, nil
	}
	if to, _ := r.peer.target(); to != nil && to.Term == termOf(lease.Since) {
		return false, nil
	}
	var n note
	text, err := db.State.Notes.Load(publisherNote)
	if err == nil && text != nil {
		err = json.Unmarshal(text, &n)
	}
	if err != nil {
		return false, fmt.Errorf("read where the publisher is reached: %w", err)
	}
	if n.Term != termOf(lease.Since) { // it is about to say so
		r.peer.set(lease.Owner, lease.Since, nil)
		return false, nil
	}
	if n.BaseURL != p.Site.BaseURL {
		return false, &otherError{n.BaseURL, p.Site.BaseURL, lease.Owner}
	}
	r.peer.set(lease.Owner, lease.Since, &n.Target)
	return false, nil
}

// An otherError reports a publisher with another base URL: documents of both would be mixed.
type otherError struct{ publishes, own, name string }

func (e *otherError) Error() string {
	return fmt.Sprintf("%s publishes %s, and this process has the base URL %s", e.name, e.publishes, e.own)
}

// Hint returns what to do.
func (e *otherError) Hint() string {
	return "give all processes the same configuration; to change the base URL, stop all of them first"
}
