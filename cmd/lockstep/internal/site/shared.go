package site

import (
	"context"
	"errors"
	"slices"

	"lockstep/blob/fence"
	"lockstep/cmd/lockstep/internal/accesslog"
	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/hubflags"
	"lockstep/cmd/lockstep/internal/hubserver"
	"lockstep/cmd/lockstep/internal/sourcereport"
	"lockstep/cmd/lockstep/internal/stateplace"
	"lockstep/source"
)

// Shared makes a site that of one of several processes with the same state and the same documents.
// One of them publishes; the site of each other is a standby, which serves what is published and
// writes nothing.
type Shared struct {
	Standby   bool
	Access    *admin.Access  // of the process, which has one site after another
	Requests  *accesslog.Log // likewise
	Publisher func() string  // says, at a standby, which process publishes

	// Fence returns the documents as this process may write them.
	Fence func(docs fence.Base, db *stateplace.Database) *fence.Store
}

// isStandby reports whether another process publishes.
func (o *Options) isStandby() bool { return o.Shared != nil && o.Shared.Standby }

// errUnconditional refuses documents that cannot be replaced under conditions.
var errUnconditional = errors.New("processes cannot share documents at this place")

// fenced returns the documents as this process may write them.
func (o *Options) fenced(docs documentStore, db *stateplace.Database) (documentStore, error) {
	if o.Shared == nil {
		return docs, nil
	}
	base, ok := docs.(fence.Base)
	if !ok {
		return nil, errUnconditional
	}
	return o.Shared.Fence(base, db), nil
}

// hasEmbeddedHub reports whether the Source has a hub of its own.
func (o *Options) hasEmbeddedHub() bool { return slices.Contains(o.Hubs.URLs, hubflags.Embedded) }

// hubOfPublisher returns the hub that runs in the process that publishes, as documents name it.
func (o *Options) hubOfPublisher() []source.Hub {
	base, err := source.BaseURL(o.BaseURL)
	if err != nil || o.Embedding == nil || !o.isStandby() || !o.hasEmbeddedHub() {
		return nil
	}
	return []source.Hub{{URL: base + hubserver.Path}}
}

// openFront opens the log of requests and the administration, unless they are those of the process.
func openFront(ctx context.Context, o *Options, onClose func(func())) (requests *accesslog.Log, access *admin.Access, err error) {
	if o.Shared != nil {
		return o.Shared.Requests, o.Shared.Access, nil
	}
	if requests, access, err = o.OpenShared(ctx); err == nil {
		onClose(requests.Close)
		onClose(access.Close)
	}
	return requests, access, err
}

// OpenShared opens the log of requests and the administration of a process.
func (o *Options) OpenShared(ctx context.Context) (requests *accesslog.Log, access *admin.Access, err error) {
	if requests, err = openAccessLog(o); err != nil {
		return nil, nil, err
	}
	if access, err = openAdmin(ctx, o); err != nil {
		requests.Close()
	}
	return requests, access, err
}

// A Member is the site of one of several processes.
type Member struct{ *Site }

// Database returns the database of the site.
func (m Member) Database() *stateplace.Database { return m.builder.storage.db }

// Source returns the Source that serves at present.
func (m Member) Source() *source.Source { return m.setup.Load().src }

// Problem returns what is wrong with the Source; "" if all is well.
func (m Member) Problem() string { return m.problem() }

// PublishSoon has the tasks publish at once what is in the catalog, and what origins report as they are read
// again.
func (m Member) PublishSoon() { m.notify() }

// Tasks returns all that a publisher does beside answering requests; it publishes changes if watch.
func (m Member) Tasks(watch bool, n *sourcereport.Reporter) []Task { return m.tasks(watch, n) }

// StandbyTasks returns all that a standby does beside answering requests.
func (m Member) StandbyTasks() []Task {
	return []Task{func(ctx context.Context) error { return m.board.Run(ctx, m.log) }}
}
