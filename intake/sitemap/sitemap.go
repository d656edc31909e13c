// Package sitemap keeps a set of a catalog in step with a Sitemap: a plain one, a
// Resource List, or an index of either, at a URL or in a file.
package sitemap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/internal/fault"
	"lockstep/intake/internal/filestat"
	"lockstep/intake/internal/listed"
	"lockstep/internal/fetch"
	"lockstep/internal/sleep"
	"lockstep/resourcesync"
)

// Options configures a [Sitemap]. The zero value is ready to use.
type Options struct {
	// Content fetches the contents of new and changed resources, to state hash,
	// length and type where the Sitemap does not. At every scan, resources whose
	// entries show no changes are requested too, with the validators of the last
	// response. Without it, records state just what the Sitemap does.
	Content bool

	// Algorithms are the hashes to compute; default MD5 and SHA-256.
	Algorithms []resourcesync.Algorithm

	// AllowEmpty lets a scan delete everything, or most of the set.
	AllowEmpty bool

	// TempDir is for an unnamed temporary file in which a long list is sorted;
	// default: that of the system.
	TempDir string

	// State is the path of a file that stores, from run to run, the state of the
	// documents when they were read last. Default: none, and the next run reads them
	// all.
	State string

	// ScanInterval is how often Watch checks for changes; default
	// [DefaultInterval]; negative: never. A Sitemap that is a file is also read soon
	// after the file changes.
	ScanInterval time.Duration

	// OnEvent receives events, never concurrently; may be nil. It must not call the
	// Sitemap.
	OnEvent func(intake.Event)
}

// DefaultInterval limits the load on servers: a response that nothing has changed
// costs little, but many servers generate a Sitemap for each request.
const DefaultInterval = 10 * time.Minute

// A Sitemap keeps a set of a catalog in step with a Sitemap, plain or a Resource
// List, or an index of either: at a URL, or in a file. Resources that it does not list
// are deleted.
//
// A resource counts as changed if its entry has changed, usually the lastmod. An
// entry with neither lastmod nor hash does not show changes, unless contents are
// fetched ([Options.Content]).
//
// Documents are requested with the validators of the last response, and only changed
// ones are read, which includes the parts of an index. A document that cannot be read
// is a Problem; then the others are applied, and nothing is deleted.
//
// Only one Sitemap may fill a set. Its methods are safe for concurrent use; scans run
// one at a time.
type Sitemap struct {
	in     intake.Origin
	client *fetch.Client
	o      Options
	web    *intake.Web
	file   string // path, if it is a file

	scanning sync.Mutex // held by a scan; guards the following fields
	memory   memory
	recalled bool   // memory was read from State
	seen     string // mark of the file at the last scan
}

// New returns a Sitemap that fills the set of cat from the document at
// address: a URL, or the path of a file. Requests are sent through c.
func New(address string, c *fetch.Client, cat catalog.Catalog, set string, o Options) (*Sitemap, error) {
	if address == "" {
		return nil, errors.New("sitemap: the address is missing")
	}
	if c == nil {
		return nil, fmt.Errorf("sitemap %s: %w", fetch.Printable(address), fault.ErrNoClient)
	}
	o.Algorithms = intake.Algorithms(o.Algorithms)
	if o.ScanInterval == 0 {
		o.ScanInterval = DefaultInterval
	}
	s := &Sitemap{
		in:     intake.Origin{Name: address, Catalog: cat, Set: set, TempDir: o.TempDir, AllowEmpty: o.AllowEmpty, Events: intake.Reporter{OnEvent: o.OnEvent}},
		client: c, o: o, web: intake.NewWeb(c),
	}
	s.file, _ = localPath(address)
	return s, nil
}

// Scan brings the catalog in step with the present documents. The Report is correct,
// as far as the scan got, even if there is an error.
func (s *Sitemap) Scan(ctx context.Context) (intake.Report, error) {
	s.scanning.Lock()
	defer s.scanning.Unlock()
	start := time.Now()
	r, err := s.scan(ctx)
	r.Elapsed = time.Since(start)
	if err != nil {
		return r, fmt.Errorf("scan %s: %w", fetch.Printable(s.in.Name), intake.Cause(ctx, err))
	}
	return r, nil
}

// scan reads the documents that have changed; and then all of them, if that is needed
// to know which resources are gone.
func (s *Sitemap) scan(ctx context.Context) (intake.Report, error) {
	if s.file != "" {
		s.seen = filestat.MarkAt(s.file)
	}
	var before intake.Report
	for r := s.newReading(false); ; {
		again, err := r.run(ctx)
		report := r.list.Report()
		report.Created += before.Created
		report.Updated += before.Updated
		report.Hashed += before.Hashed
		report.Bytes += before.Bytes
		if err != nil || !again {
			r.close()
			return report, err
		}
		before = report
		next := s.newReading(true)
		if r.changed {
			next.missed = newMissed(r)
		} else {
			r.close()
		}
		r = next
	}
}

// Watch scans at once, and again every [Options.ScanInterval], until ctx ends; then
// it returns the cause. onChange is called after every scan that changed the catalog, or
// failed: then it may have changed more than it reports. The next scan waits until it
// returns. Errors are reported to [Options.OnEvent], and the scan is retried.
func (s *Sitemap) Watch(ctx context.Context, onChange func(intake.Report)) error {
	return s.in.Watch(ctx, s.Scan, s.due, onChange)
}

// due waits for the time of the next scan.
func (s *Sitemap) due(ctx context.Context) error {
	if s.o.ScanInterval < 0 {
		return intake.Forever(ctx)
	}
	if s.file == "" {
		return sleep.For(ctx, s.o.ScanInterval)
	}
	s.scanning.Lock()
	seen := s.seen
	s.scanning.Unlock()
	next := time.Now().Add(s.o.ScanInterval)
	for time.Now().Before(next) {
		if err := sleep.For(ctx, min(intake.FileInterval, time.Until(next))); err != nil {
			return err
		}
		if filestat.MarkAt(s.file) != seen {
			return sleep.For(ctx, intake.Quiet)
		}
	}
	return ctx.Err()
}

// Bitstream opens the representation of r at its URI. See [intake.Web.Bitstream].
func (s *Sitemap) Bitstream(ctx context.Context, r *catalog.Record) (io.ReadCloser, error) {
	return s.web.Bitstream(ctx, r)
}

// memory is the state of the documents at the time when they had been applied.
type memory struct {
	Rules   string              `json:"rules"` // how they were read
	Address string              `json:"address"`
	Point   intake.Point        `json:"point"`
	Shared  bool                `json:"shared"`  // at least one resource is listed in two documents
	Undated bool                `json:"undated"` // at least one resource has to be requested at each scan
	Docs    map[string]document `json:"docs"`    // by URI; without those that have no validators
}

// A document is the remembered state of one document.
type document struct {
	ETag     string   `json:"etag,omitempty"`
	Modified string   `json:"modified,omitempty"`
	Mark     string   `json:"mark,omitempty"`  // of a file
	Index    bool     `json:"index,omitempty"` // it lists
	Parts    []string `json:"parts,omitempty"` // these
}

// rules identifies how documents are read: if it changes, they are read again.
func (s *Sitemap) rules() string {
	rules := "1"
	if s.o.Content {
		for _, a := range s.o.Algorithms {
			rules += " " + a.String()
		}
	}
	return rules
}

// partID returns the prefix of the Tokens of resources that a document lists.
func partID(uri string) string {
	return string(listed.AppendFingerprint(nil, []byte(uri)))[:partSize]
}

const partSize = 8 // characters

// An entryToken is the content of a Token: the id of the document, the fingerprint of
// the entry, and the validators of the resource's own server if ask is set: then each
// scan requests the resource.
type entryToken struct {
	part, said string
	etag       string
	modified   string
	ask        bool
}

func parseToken(t string) (entryToken, bool) {
	if len(t) < partSize+listed.FingerprintSize {
		return entryToken{}, false
	}
	k := entryToken{part: t[:partSize], said: t[partSize : partSize+listed.FingerprintSize]}
	if rest := t[partSize+listed.FingerprintSize:]; rest != "" {
		k.ask = true
		k.modified, k.etag, _ = strings.Cut(rest[1:], "|")
	}
	return k, true
}

func (k *entryToken) String() string {
	if !k.ask {
		return k.part + k.said
	}
	return k.part + k.said + "?" + k.modified + "|" + k.etag
}
