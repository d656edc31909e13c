package site

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/catalog"
	"lockstep/cmd/lockstep/internal/sourcefigures"
	"lockstep/cmd/lockstep/internal/sourcereport"
	"lockstep/intake"
	"lockstep/internal/statedir"
	"lockstep/source"
)

// A scanned is the result of scanning a set.
type scanned struct {
	set *siteSet
	intake.Report
	err error
}

// A scanner scans the sets of a site once.
type scanner struct {
	sets     []*siteSet
	status   func(ctx context.Context, list string) (catalog.Status, error) // of a set in the catalog
	failures *sourcefigures.Origins
	watching bool // the site scans again later
}

// scan brings the catalog in step with the origins of the sets: upstreams at the
// same time, then the others one after the other. A set that cannot be read
// prevents publication only if the catalog has nothing of it yet, unless it is one
// of several upstreams that are followed, or if all sets fail: then there is
// nothing to publish. A site that watches serves what it published before while
// the servers that its sets come from are down. Otherwise the error of a set is
// part of the result.
func (s *scanner) scan(ctx context.Context) ([]scanned, error) {
	var scans []scanned
	var errs []error
	upstreams := s.scanUpstreams(ctx)
	remote := false // a set that fails comes from another machine
	for _, set := range s.sets {
		if set.later {
			scans = append(scans, scanned{set: set})
			continue
		}
		done, ok := upstreams[set]
		if !ok {
			done.set = set
			done.Report, done.err = set.origin.Scan(ctx)
		}
		if ctx.Err() != nil {
			return scans, context.Cause(ctx)
		}
		scans = append(scans, done)
		err := done.err
		if err == nil {
			s.failures.Note(set.name, &intake.Event{Kind: intake.EventScanned})
			continue
		}
		// Readiness and metrics show the failure from the first answer on. The caller
		// reports it, so the first scan of the watch does not.
		failure := &intake.Event{Kind: intake.EventScanned, Err: err}
		s.failures.Note(set.name, failure)
		s.failures.IsRepeated(set.name, failure, time.Now())
		remote = remote || set.from.Dir() == "" && set.from.File() == ""
		errs = append(errs, err)
		known, serr := s.status(ctx, set.list)
		follows := set.isUpstream() && s.watching && len(s.sets) > 1 // its set appears once it can be read
		if serr != nil || known.Last == 0 && !follows {
			return scans, errors.Join(sourcereport.OfSet(set.name, len(s.sets), set.from.Dir(), err), serr)
		}
	}
	if len(errs) == len(s.sets) && !(remote && s.watching) {
		return scans, errors.Join(errs...)
	}
	return scans, nil
}

// upstreamScans is how many upstreams are scanned at a time: most of the time is spent
// waiting for their servers.
const upstreamScans = 8

// scanUpstreams scans the sets that other Sources fill, several at a time, so that a slow
// one does not keep the others waiting.
func (s *scanner) scanUpstreams(ctx context.Context) map[*siteSet]scanned {
	var work errgroup.Group
	work.SetLimit(upstreamScans)
	var mu sync.Mutex // guards done
	done := make(map[*siteSet]scanned)
	for _, set := range s.sets {
		if !set.isUpstream() {
			continue
		}
		work.Go(func() error {
			r, err := set.origin.Scan(ctx)
			mu.Lock()
			defer mu.Unlock()
			done[set] = scanned{set, r, err}
			return nil
		})
	}
	_ = work.Wait() // the errors are in done
	return done
}

// isUpstream reports whether another Source fills the set.
func (set *siteSet) isUpstream() bool { return set.from.Kind.Scheme == "resourcesync" }

// published records publications.
type published struct {
	tally *sourcefigures.Tally
	place string // of the documents
	sets  []*siteSet
	names *changeNamer // nil: changes are not named
	log   *slog.Logger

	mu    sync.Mutex      // guards what follows
	claim *statedir.Claim // to the place of the documents
}

// after returns a function that publishes, everything or what is urgent, and records the
// result.
func (p *published) after(publish func(context.Context) (source.Report, error), all bool) func(context.Context) (source.Report, error) {
	return func(ctx context.Context) (source.Report, error) {
		began := time.Now()
		r, err := publish(ctx)
		p.tally.Published(&r, all, began, err)
		if err == nil {
			p.mu.Lock()
			err = p.claim.Published(ctx)
			p.mu.Unlock()
		}
		if err != nil {
			return r, fmt.Errorf("write documents to %s: %w", p.place, err)
		}
		if err := p.names.published(ctx, p.sets, &r); err != nil && ctx.Err() == nil {
			p.log.WarnContext(ctx, "cannot name what was published", slog.Any("err", err))
		}
		return r, nil
	}
}

// PublishOnce scans and publishes once. What is put off is published once the site
// watches.
func (s *Site) PublishOnce(ctx context.Context, n *sourcereport.Reporter) (p Publication, err error) {
	now := s.setup.Load()
	if err := s.builder.names.begin(ctx, now.sets...); err != nil {
		return p, err
	}
	if p.scans, err = now.scans.scan(ctx); err != nil {
		return p, err
	}
	for i := range p.scans {
		n.Scanned(p.scans[i].set.name, p.scans[i].set.from.Kind.Away, &p.scans[i].Report)
	}
	s.checks.once(ctx)
	s.versions.Adopt(ctx, n)
	if p.report, err = now.publish(ctx); err != nil {
		return p, err
	}
	if p.report.Later {
		s.notify()
	}
	n.Remark(p.report)
	n.Holding(p.report)
	return p, nil
}

// Dump brings the dumps in step once, and removes bytes that nothing uses any
// more. Without dumps it withdraws those that were published before.
func (s *Site) Dump(ctx context.Context, p *Publication, n *sourcereport.Reporter) (err error) {
	n.Dumping()
	dumps := s.setup.Load().dumps
	p.dumps, err = dumps.Publish(ctx)
	n.Dumped(p.dumps)
	return errors.Join(err, dumps.Sweep(ctx))
}
