// Package site is a Source as serve, publish and demo run it: it opens the origins of its
// sets, the catalog and the place of the documents, publishes changes as they come, and
// serves documents, resources, pages, hub and repository.
package site

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"lockstep/bitstream"
	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/hubflags"
	"lockstep/cmd/lockstep/internal/hubserver"
	"lockstep/cmd/lockstep/internal/listen"
	"lockstep/cmd/lockstep/internal/network"
	"lockstep/cmd/lockstep/internal/sourcefigures"
	"lockstep/cmd/lockstep/internal/sourcereport"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/intake"
	"lockstep/intake/api"
	"lockstep/internal/fetch"
	"lockstep/internal/mediatype"
	"lockstep/internal/statedir"
	"lockstep/repository"
	"lockstep/source"
	"lockstep/storage/sqlite"
)

// A Site is a Source as serve and publish run it: sets, each with a way in, one
// catalog, one store of documents.
type Site struct {
	opts      Options
	sets      []*siteSet
	db        *sqlite.DB
	docs      documentStore
	claim     *statedir.Claim // of the place of the documents
	src       *source.Source
	clients   []*fetch.Client
	api       *api.API          // nil: no set is filled through it
	apiPath   string            // where it is
	bytes     *blob.Dir         // of past representations; nil if nothing needs them
	keeper    *bitstream.Keeper // of those
	versions  versionsKeeping
	log       *slog.Logger
	release   func()           // of the state's lock
	hub       *hubserver.Front // embedded; nil: none
	database  *admin.Readiness
	hubPath   string                 // where it is
	Pages     *admin.Pages           // about the Source; nil: none
	admin     *admin.Access          // nil: none
	oai       *repository.Repository // for harvesters; nil: none
	oaiPath   string                 // where it is
	tally     sourcefigures.Tally
	upstreams sourcefigures.Origins
}

// Options configure a site.
type Options struct {
	BaseURL      string
	Sets         []config.Set // settled: what flags and defaults say is filled in
	State        string       // directory for what is kept from run to run
	Documents    string       // directory or bucket for the documents
	Gzip         bool         // with compressed variants
	APITokenFile string       // clients with a token in it may fill sets; "" none may
	AllowEmpty   bool
	TakeOver     bool          // documents of another state are replaced
	ScanInterval time.Duration // of sets that do not say; 0 the default of the way in, negative never
	Rehash       float64       // share of the files that is read again in a day
	Watching     bool          // go on after the first publication
	Hubs         hubflags.Hubs
	OAI          OAIFlags
	Embedding    *Embedding // nil: nothing but documents and resources is served
	Content      bool       // serve the resources too, where we have them
	Command      string     // what the lock says
	Release      func()     // of the state's lock, where it is locked already
	Network      *network.Options
	IO           term.IO
	Log          *slog.Logger
	OnEvent      func(set string, e intake.Event)
	OnNotify     func(source.Notification) // may be nil
}

// Open opens the state of a site and locks it. Nothing is scanned yet.
func Open(ctx context.Context, o Options) (_ *Site, err error) {
	if o.Release == nil {
		if err := o.Check(); err != nil {
			return nil, err
		}
		if err := o.Lock(); err != nil {
			return nil, err
		}
	}
	s := &Site{opts: o, log: o.Log, release: o.Release}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if s.db, err = sqlite.Open(filepath.Join(o.State, "catalog.db")); err != nil {
		return nil, err
	}
	if s.docs, err = openDocuments(ctx, o); err != nil {
		return nil, err
	}
	if s.claim, err = claimDocuments(ctx, s.docs, o); err != nil {
		return nil, err
	}
	if err := s.openVersions(); err != nil {
		return nil, err
	}
	if err := s.keepBytes(); err != nil {
		return nil, err
	}
	if err := s.openHub(ctx); err != nil {
		return nil, err
	}
	if err := s.openPages(ctx); err != nil {
		return nil, err
	}
	if err := s.newSource(); err != nil {
		return nil, err
	}
	if err := s.claim.Take(ctx); err != nil {
		return nil, err
	}
	if err := s.adopt(ctx); err != nil {
		return nil, err
	}
	return s, s.beginVersions(ctx)
}

// newSource makes the sets and the Source that publishes them.
func (s *Site) newSource() (err error) {
	so := source.Options{BaseURL: s.opts.BaseURL, Temp: s.opts.State, Logger: s.log}
	so.Type = mediatype.Of // what lists state: the types files are served with are no others
	so.Static, so.Restart = !s.opts.Content, s.claim.Restarts()
	if s.opts.Content {
		so.Content, so.Mark, so.OnDemand, so.Streams = s.open, s.mark, &source.OnDemand{}, min(maxStreams, max(listen.Connections()/2, 1))
	}
	if so.Hubs, err = s.opts.Hubs.ForSource(s.hub, s.opts.Network); err != nil {
		return err
	}
	so.OnNotify = func(n source.Notification) {
		s.tally.Notified(&n)
		if s.opts.OnNotify != nil {
			s.opts.OnNotify(n)
		}
	}
	cat := catalog.Catalog(s.db.Catalog())
	for i := range s.opts.Sets {
		var set *siteSet
		if set, cat, err = s.newSet(&s.opts.Sets[i], cat); err != nil {
			return err
		}
		s.sets = append(s.sets, set)
		so.Sets = append(so.Sets, set.source)
	}
	docs := blob.Store(s.docs)
	if s.opts.Gzip {
		docs = source.Compressed(docs)
	}
	if s.src, err = source.New(cat, docs, so); err != nil {
		return term.Usage(err, "")
	}
	return s.openOAI()
}

// Close gives everything back. It may be called on a site half opened.
func (s *Site) Close() {
	s.admin.Close()
	if s.api != nil {
		if err := s.api.Close(); err != nil {
			s.log.Warn("close the API", slog.Any("err", err))
		}
	}
	for _, c := range s.clients {
		c.Close()
	}
	if s.docs != nil {
		_ = s.docs.Close() // all it wrote was committed before
	}
	if s.bytes != nil {
		_ = s.bytes.Close() // the same
	}
	if s.versions.blobs != nil {
		_ = s.versions.blobs.Close() // the same
	}
	if s.db != nil {
		if err := s.db.Close(); err != nil {
			s.log.Warn("close catalog", slog.Any("err", err))
		}
	}
	if s.release != nil {
		s.release()
	}
}

// open opens the file behind the path rel below the base URL, if it is a
// resource.
func (s *Site) open(rel string) (*os.File, fs.FileInfo, error) {
	for _, set := range s.sets {
		files, ok := set.origin.(fileOpener)
		if !ok || set.source.Elsewhere {
			continue
		}
		if inner, ok := strings.CutPrefix(rel, set.source.Path); ok {
			f, info, err := files.Open(inner)
			if !errors.Is(err, fs.ErrNotExist) {
				return f, info, err
			}
		}
	}
	return nil, nil, fs.ErrNotExist
}

// mark returns a string that identifies the current state of the file that open
// opens.
func (s *Site) mark(rel string) (string, error) {
	for _, set := range s.sets {
		files, ok := set.origin.(fileOpener)
		if !ok || set.source.Elsewhere {
			continue
		}
		if inner, ok := strings.CutPrefix(rel, set.source.Path); ok {
			mark, err := files.Mark(inner)
			if !errors.Is(err, fs.ErrNotExist) {
				return set.name + " " + mark, err
			}
		}
	}
	return "", fs.ErrNotExist
}

// A scanned is the result of scanning a set.
type scanned struct {
	set *siteSet
	intake.Report
	err error
}

// scan brings the catalog in step with where the sets come from, one after the
// other. One that cannot be read keeps the others from it only if nothing is
// known of it yet, or if all fail: then there is nothing that could be
// published. A site that watches serves what it published before while the servers
// that its sets come from are down. Otherwise the error of a set is among what
// is returned.
func (s *Site) scan(ctx context.Context) ([]scanned, error) {
	var scans []scanned
	var errs []error
	remote := false // a set that fails comes from another machine
	for _, set := range s.sets {
		if set.later {
			scans = append(scans, scanned{set: set})
			continue
		}
		r, err := set.origin.Scan(ctx)
		if ctx.Err() != nil {
			return scans, context.Cause(ctx)
		}
		scans = append(scans, scanned{set, r, err})
		if err == nil {
			continue
		}
		// Readiness and metrics show the failure from the first answer on. Our caller
		// warns of it, so the first scan of the watch need not.
		failure := &intake.Event{Kind: intake.EventScanned, Err: err}
		s.upstreams.Note(set.name, failure)
		s.upstreams.IsRepeated(set.name, failure, time.Now())
		remote = remote || set.from.Dir() == "" && set.from.File() == ""
		errs = append(errs, err)
		known, serr := s.db.Catalog().Status(ctx, set.list)
		if serr != nil || known.Last == 0 {
			return scans, errors.Join(err, serr)
		}
	}
	if len(errs) == len(s.sets) && !(remote && s.opts.Watching) {
		return scans, errors.Join(errs...)
	}
	return scans, nil
}

// publish brings the documents in step with the catalog.
func (s *Site) publish(ctx context.Context) (source.Report, error) {
	return s.publishBy(ctx, s.src.Publish)
}

func (s *Site) publishBy(ctx context.Context, publish func(context.Context) (source.Report, error)) (source.Report, error) {
	began := time.Now()
	r, err := publish(ctx)
	s.tally.Published(&r, began, err)
	if err == nil {
		err = s.claim.Published(ctx)
	}
	if err != nil {
		err = fmt.Errorf("write documents to %s: %w", s.opts.Documents, err)
	}
	return r, err
}

// A Publication is the result of publishOnce.
type Publication struct {
	scans  []scanned
	report source.Report
	dumps  source.DumpReport
}

// Failed returns why sets could not be read that are published as they were.
func (p *Publication) Failed() error {
	var errs []error
	for _, scan := range p.scans {
		errs = append(errs, scan.err)
	}
	return errors.Join(errs...)
}

// Resources returns how many are published, in all sets together.
func (p *Publication) Resources() (n int64) {
	for _, set := range p.report.Sets {
		n += set.Resources
	}
	return n
}

// PublishOnce scans and publishes once.
func (s *Site) PublishOnce(ctx context.Context, n *sourcereport.Reporter) (p Publication, err error) {
	if p.scans, err = s.scan(ctx); err != nil {
		return p, err
	}
	for i := range p.scans {
		n.Scanned(p.scans[i].set.from.Kind.Away, &p.scans[i].Skipped)
	}
	s.rehashOnce(ctx)
	s.adoptVersions(ctx, n)
	if p.report, err = s.publish(ctx); err != nil {
		return p, err
	}
	n.Remark(p.report)
	return p, nil
}

// maxStreams is how many streams of events serve gives at a time: memory filled
// by Destinations that no hub can call.
const maxStreams = 1000
