package site

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"lockstep/blob/fence"
	"lockstep/blob/s3"
	"lockstep/cmd/lockstep/internal/accesslog"
	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/hubflags"
	"lockstep/cmd/lockstep/internal/hubserver"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/origins"
	"lockstep/cmd/lockstep/internal/sourcereport"
	"lockstep/cmd/lockstep/internal/stateplace"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/intake"
	"lockstep/source"
)

// Shared makes a site that of one of several processes with the same state and the same bucket. One
// of them publishes; the site of each other is a standby, which serves what is published and writes
// nothing.
type Shared struct {
	Standby   bool
	Access    *admin.Access  // of the process, which has one site after another
	Requests  *accesslog.Log // likewise
	Publisher func() string  // says, at a standby, which process publishes
	Conflict  func(error)    // called when another process has written a document; see [fence.New]
}

// isStandby reports whether another process publishes.
func (o *Options) isStandby() bool { return o.Shared != nil && o.Shared.Standby }

// errNotBucket refuses a directory that processes share: there, a document cannot be replaced under
// the condition that it is the one that was read.
var errNotBucket = errors.New("the documents of processes that share a state must be in a bucket")

// CheckShared rejects what processes cannot share.
func (o *Options) CheckShared() error {
	const remedy = "use --state postgres://…, and documents: s3://BUCKET/PREFIX in the configuration; or leave --shared out"
	switch {
	case !o.State.InDatabase():
		return term.Usage(fmt.Errorf("--shared: the state in %s is that of one process", o.State), remedy)
	case !mirror.IsBucket(o.Documents):
		return term.Usage(fmt.Errorf("--shared: %w", errNotBucket), remedy)
	case o.BaseURL == "":
		return term.Usage(errors.New("--shared: the base URL of a process alone would be published"), "give the one at which clients reach all processes, as --base-url https://data.example.org/")
	case slices.ContainsFunc(o.Sets, func(c config.Set) bool { return c.Origin.Place == config.Stdin }):
		return term.Usage(errors.New("--shared: what one process reads from standard input, the others do not have"), "write it to a file, or to the API of a set from api:")
	}
	return nil
}

// CheckBucket refuses an S3 service that does not replace objects under conditions: a process that was
// paused could replace documents of its successor there.
func (o *Options) CheckBucket(ctx context.Context) error {
	b, err := mirror.OpenBucket(o.Documents, mirror.BucketClient{LookupEnv: o.IO.LookupEnv, Network: o.Network, Log: o.Log})
	if err != nil {
		return err
	}
	err = b.CheckConditions(ctx)
	if errors.Is(err, s3.ErrUnconditional) {
		return term.WithHint(fmt.Errorf("--shared: %s: %w", o.Documents, err), "use a service that honors them, as Amazon S3, MinIO, Ceph and versitygw do in their present versions; or run one process, without --shared")
	}
	if err != nil {
		return fmt.Errorf("--shared: try out %s: %w", o.Documents, err)
	}
	return nil
}

// errStandby refuses what only the process that publishes may write.
var errStandby = errors.New("another process publishes")

// readOnly returns the documents for a standby.
func (*Shared) readOnly(b bucketStore) documentStore {
	return fence.New(b, func(context.Context) error { return errStandby }, func(error) {})
}

// fenced returns the documents for the process that owns a database.
func (s *Shared) fenced(b bucketStore, db *stateplace.Database) documentStore {
	return fence.New(b, db.CheckOwner, s.Conflict)
}

// hasEmbeddedHub reports whether the Source has a hub of its own.
func (o *Options) hasEmbeddedHub() bool { return slices.Contains(o.Hubs.URLs, hubflags.Embedded) }

// embeddedHub returns the hub that runs in the process that publishes, as documents name it.
func (o *Options) embeddedHub() []source.Hub {
	base, err := source.BaseURL(o.BaseURL)
	if err != nil || o.Embedding == nil || !o.hasEmbeddedHub() {
		return nil
	}
	return []source.Hub{{URL: base + hubserver.Path}}
}

// openFront opens the log of requests and the administration, unless they are those of the process.
func (s *Site) openFront(ctx context.Context, o *Options) (access *admin.Access, err error) {
	if o.Shared != nil {
		s.requests = o.Shared.Requests
		return o.Shared.Access, nil
	}
	if s.requests, err = openAccessLog(o); err != nil {
		return nil, err
	}
	s.onClose(s.requests.Close)
	if access, err = openAdmin(ctx, o); err == nil {
		s.onClose(access.Close)
	}
	return access, err
}

// OpenShared opens the administration and the log of requests of a process.
func (o *Options) OpenShared(ctx context.Context) (access *admin.Access, requests *accesslog.Log, err error) {
	if requests, err = openAccessLog(o); err != nil {
		return nil, nil, err
	}
	if access, err = openAdmin(ctx, o); err != nil {
		requests.Close()
	}
	return access, requests, err
}

// Database returns the database of the site.
func (s *Site) Database() *stateplace.Database { return s.builder.storage.db }

// Source returns the Source that serves at present.
func (s *Site) Source() *source.Source { return s.setup.Load().src }

// AdminHandler serves the administration.
func (s *Site) AdminHandler() http.Handler { return s.Pages.Admin(s.api.Serve) }

// Problem returns what is wrong with the Source; "" if all is well.
func (s *Site) Problem() string { return s.problem() }

// PublishSoon has Work publish at once what is in the catalog, and what origins report as they are read
// again.
func (s *Site) PublishSoon() { s.notify() }

// Work publishes changes if watch, and does all else that a site does beside answering requests,
// until ctx ends.
func (s *Site) Work(ctx context.Context, watch bool, n *sourcereport.Reporter) error {
	return together(ctx, s.tasks(watch, n)...)
}

// refreshEvery is how often a standby looks at what is published, for its pages.
const refreshEvery = time.Minute

// StandBy does what a standby does beside answering requests, until ctx ends.
func (s *Site) StandBy(ctx context.Context) error {
	return together(ctx,
		func(ctx context.Context) error { return s.board.Run(ctx, s.log) },
		func(ctx context.Context) error { return s.setup.Load().harvesting.refresh(ctx) },
		func(ctx context.Context) error {
			for {
				err := s.Source().Refresh(ctx)
				pause := refreshEvery
				if err != nil && ctx.Err() == nil {
					pause = waitEvery / 6
					s.log.WarnContext(ctx, "cannot look at what is published", slog.Any("err", err))
				}
				if intake.Sleep(ctx, pause) != nil {
					return nil
				}
			}
		})
}

// IsForPublisher reports whether only the process that publishes can answer a request: to change a
// set, to subscribe at the embedded hub, and for notifications.
func (s *Site) IsForPublisher(r *http.Request) bool {
	path, o := r.URL.EscapedPath(), s.builder.opts
	base, err := parseBase(o.BaseURL)
	if err != nil {
		return false // unreachable: it was checked
	}
	switch {
	case strings.HasPrefix(path, base.EscapedPath()+origins.APIDir):
		return s.api.Used()
	case path == base.EscapedPath()+hubserver.Path && o.hasEmbeddedHub():
		return !s.setup.Load().front.hidesHub(r)
	}
	return s.isTopic(path)
}

// isTopic reports whether a path is that of the topic of a set.
func (s *Site) isTopic(path string) bool {
	for _, set := range s.setup.Load().sets {
		uri, err := source.TopicURI(s.about.BaseURL, set.name)
		if err != nil {
			continue // unreachable: it was checked
		}
		if topic, err := url.Parse(uri); err == nil && topic.EscapedPath() == path {
			return true
		}
	}
	return false
}
