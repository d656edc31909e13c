// Package validate checks documents of ResourceSync against the requirements of the
// standard, and a Source against what its documents say. It also checks Atom-PMH
// feeds and OAI-PMH repositories.
//
//	report, err := validate.Document(ctx, r, "https://example.org/resourcelist.xml", validate.Options{})
//	report, err := validate.Package(ctx, readerAt, size, uri, validate.Options{})
//	report, err := validate.Source(ctx, open, "https://example.org/.well-known/resourcesync", validate.Options{})
//
// [Document] checks one document. [Package] checks one ZIP file and its manifest.
// [Source] starts from any document, goes up to the Source Description and down to
// every part, manifest and package, compares what the documents of a set say with
// each other, and compares a sample of the resources with it. [Feed] starts from any
// document of a feed, and [Repository] sends a few requests to a repository.
//
// The rules are data: [finding.Rules] lists each with the ID of its requirement, its
// level and its text. A violation is a [finding.Finding], which is data too; an error
// means that something could not be checked.
//
// The package sends no requests itself: an [opener.Func] opens what is at a URI, from
// the network, a directory, or memory.
package validate

import (
	"bufio"
	"context"
	"io"
	"math/rand/v2"
	"time"

	"lockstep/resourcesync"
	"lockstep/validate/finding"
	"lockstep/validate/internal/dump"
	"lockstep/validate/internal/feed"
	"lockstep/validate/internal/repository"
	"lockstep/validate/internal/tally"
	"lockstep/validate/internal/visit"
	"lockstep/validate/opener"
)

// SampleAll as [Options.Sample] means every resource.
const SampleAll = visit.SampleAll

const (
	// DefaultSample is how many resources, and how many bitstreams of packages, are
	// compared with their descriptions.
	DefaultSample = 20
	// defaultDocumentBytes caps the size of a document: an endless one, or a
	// decompression bomb. The standard's own limit is 50 MB.
	defaultDocumentBytes = 128 << 20
	// defaultDocuments caps the documents of one run: an endless Source.
	defaultDocuments = 100_000
	// defaultResourceBytes caps what is read of a resource.
	defaultResourceBytes = 16 << 30
	// defaultSettle is how long a Source may take to announce a change.
	defaultSettle = 3 * time.Second
	// defaultJobs is how many resources are checked concurrently.
	defaultJobs = 8
)

// Options configures a run. The zero value checks documents and packages, but
// no resources.
type Options struct {
	Sample        int                   // resources to compare with their descriptions, chosen at random; SampleAll; 0 none
	Seed          uint64                // of the choice; 0 chooses one, which the Report contains
	Strict        bool                  // warnings count as errors
	Advice        bool                  // also report findings of level Advice
	Single        bool                  // only the document at the address
	Jobs          int                   // resources checked concurrently; default 8
	DocumentBytes int64                 // of one document, uncompressed; default 128 MiB
	Documents     int                   // of one run; default 100,000
	ResourceBytes int64                 // read of one resource; default 16 GiB
	Settle        time.Duration         // how long a Source may take to announce a change; default 3 s
	TempDir       string                // for data that does not fit into memory; default os.TempDir
	OnFinding     func(finding.Finding) // called in order, never concurrently; may be nil
	OnDocument    func(uri string)      // called when a document is opened, possibly concurrently; may be nil

	// OnResource is called concurrently with the entry of each resource of the sample;
	// may be nil. With it, documents that are checked alone have a sample, too.
	OnResource func(ctx context.Context, e *resourcesync.Entry)

	Now func() time.Time
}

func (o Options) withDefaults() Options {
	if o.Jobs <= 0 {
		o.Jobs = defaultJobs
	}
	if o.DocumentBytes <= 0 {
		o.DocumentBytes = defaultDocumentBytes
	}
	if o.Documents <= 0 {
		o.Documents = defaultDocuments
	}
	if o.ResourceBytes <= 0 {
		o.ResourceBytes = defaultResourceBytes
	}
	if o.Settle <= 0 {
		o.Settle = defaultSettle
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	for o.Seed == 0 {
		o.Seed = rand.Uint64() >> 33 // short enough to be typed
	}
	return o
}

// newVisit returns a Visitor with an empty Report.
func newVisit(o Options) *visit.Visitor {
	o = o.withDefaults()
	return visit.NewVisitor(finding.NewCollector(o.Seed, o.Strict, o.Advice, o.OnFinding), nil, &visit.Settings{
		Sample: o.Sample, Seed: o.Seed, Single: o.Single, Jobs: o.Jobs,
		DocumentBytes: o.DocumentBytes, Documents: o.Documents, ResourceBytes: o.ResourceBytes,
		Settle: o.Settle, TempDir: o.TempDir, OnDocument: o.OnDocument, OnResource: o.OnResource, Now: o.Now,
	})
}

// Document checks the document in r, whose address is uri: relative URIs in it
// are resolved against it. It returns an error if reading r fails or ctx ends.
func Document(ctx context.Context, r io.Reader, uri string, o Options) (*finding.Report, error) {
	w := newWalk(newVisit(o))
	c := w.visitor.Collector
	text := bufio.NewReaderSize(r, maxHead)
	head, _ := text.Peek(maxHead) // a shorter document is returned whole
	src := &visit.Source{Reader: text, URI: uri, Final: uri}
	switch rootOf(head) {
	case feedRoot:
		return c.Report, feed.CheckDocument(ctx, w.visitor, src)
	case repositoryRoot:
		return c.Report, repository.CheckResponse(ctx, w.visitor, src)
	}
	return c.Report, w.alone(ctx, func(each eachFunc) error {
		_, err := w.read(ctx, src, each)
		return err
	})
}

// alone runs check, which reads one document and passes its entries on, and compares
// the entries of that document with each other.
func (w *walk) alone(ctx context.Context, check func(eachFunc) error) error {
	w.tally = tally.New(w.visitor.Settings.TempDir)
	defer w.tally.Close()
	var s sampler
	if err := check(s.beginAlone(w.visitor.Settings)); err != nil {
		return err
	}
	if err := w.compare(ctx, w.tally, &facts{single: true}); err != nil {
		return err
	}
	return s.pass(ctx, w.visitor.Settings)
}

// Package checks the ZIP file in r and the manifest in it. It compares the
// bytes of o.Sample bitstreams with the manifest. It returns an error if
// reading r fails or ctx ends.
func Package(ctx context.Context, r io.ReaderAt, size int64, uri string, o Options) (*finding.Report, error) {
	w := newWalk(newVisit(o))
	var manifest *document
	return w.visitor.Collector.Report, w.alone(ctx, func(each eachFunc) error {
		return dump.Check(ctx, w.visitor, r, size, dump.Package{URI: uri, Bitstreams: o.Sample, Read: w.manifestReader(ctx, &manifest, each)})
	})
}

// Feed checks the logical feed of the document at address, like [Source] does
// for a feed; but if there is no feed, that is a Finding.
func Feed(ctx context.Context, open opener.Func, address string, o Options) (*finding.Report, error) {
	r := NewRun(o)
	err := r.Feed(ctx, open, address)
	return r.Report(), err
}

// ErrNoSuch reports that a repository does not have the format or set that the
// address names.
var ErrNoSuch = repository.ErrNoSuch

// Repository checks the answers of the OAI-PMH repository at address to a few
// requests: its description, two pages of its records, a single record, and the
// errors it must report. The address may have metadataPrefix and set in its
// query, which select the records.
//
// Repository returns an error if the run could not be finished, like [Source],
// or [ErrNoSuch] if there is nothing to check.
func Repository(ctx context.Context, open opener.Func, address string, o Options) (*finding.Report, error) {
	r := NewRun(o)
	err := r.Repository(ctx, open, address)
	return r.Report(), err
}
