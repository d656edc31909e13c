// Package sitemap keeps a set of a catalog in step with a Sitemap: plain, a Resource
// List, or an index of such, at a URL or in a file.
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
	"lockstep/resourcesync"
)

// Options configures a [Sitemap]. The zero value is ready to use.
type Options struct {
	// Content has the contents of new and changed resources fetched, to state
	// their hash, length and type where the Sitemap does not; and at every scan
	// those asked after of which the Sitemap tells no change. Without it a
	// Sitemap says just what it says.
	Content bool

	// Algorithms are the hashes to state; default MD5 and SHA-256.
	Algorithms []resourcesync.Algorithm

	// AllowEmpty lets a scan delete everything, or most of the set.
	AllowEmpty bool

	// TempDir is for a file without a name in which a long list is sorted;
	// default the system's.
	TempDir string

	// State is the path of a file in which is kept, from run to run, how the
	// documents stood when they were read last; default: that is forgotten, and
	// the next run reads them all.
	State string

	// ScanInterval is how often Watch asks whether something has changed;
	// default [DefaultSitemapInterval], negative never. A Sitemap that is a file
	// is looked at as often as JSON Lines are.
	ScanInterval time.Duration

	// OnEvent is told what happens, never concurrently; may be nil. It must not
	// call the Sitemap.
	OnEvent func(intake.Event)
}

// DefaultInterval is polite: an answer that nothing has changed costs
// little, but Sitemaps are often made anew for each question.
const DefaultInterval = 10 * time.Minute

// A Sitemap keeps a set of a catalog in step with a Sitemap, plain or a Resource
// List, or an index of such: at a URL, or in a file. What it does not list is gone.
//
// A resource has changed if its entry has: lastmod as a rule. Of an entry
// without lastmod and hash a change cannot be seen, unless contents are fetched
// ([Options.Content]).
//
// Documents are asked for with the validators of the last answer, and only what
// has changed is read: of an index the parts in question. A document that cannot
// be read is a Problem; then the others are taken in, and nothing is deleted.
//
// Only one Sitemap may fill a set. Its methods are safe for concurrent use; scans
// take turns.
type Sitemap struct {
	in     intake.Origin
	client *fetch.Client
	o      Options
	web    *intake.Web
	file   string // path, if it is a file

	scanning sync.Mutex // held by a scan, guards what follows
	memory   memory
	recalled bool // memory was read from State
	seen     string
}

// New returns a Sitemap that fills the set of cat from the document at
// address: a URL, or the path of a file. It asks through c.
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

// Scan brings the catalog in step with the documents as they are now. The Report
// is right, as far as the scan came, with an error too.
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

// scan reads what has changed; and everything, if that was not enough to know
// what is gone.
func (s *Sitemap) scan(ctx context.Context) (intake.Report, error) {
	if s.file != "" {
		s.seen = filestat.MarkAt(s.file)
	}
	var before intake.Report
	for whole := false; ; whole = true {
		r := s.newReading(whole)
		again, err := r.run(ctx)
		report := r.list.Report()
		r.list.Close()
		report.Created += before.Created
		report.Updated += before.Updated
		report.Hashed += before.Hashed
		report.Bytes += before.Bytes
		if err != nil || !again {
			return report, err
		}
		before = report
	}
}

// Watch scans at once, and again every [Options.ScanInterval], until ctx
// ends; then it returns the cause. onChange is told of every scan that changed
// the catalog; the next one waits until it returns. What goes wrong is told to
// [Options.OnEvent], and tried again.
func (s *Sitemap) Watch(ctx context.Context, onChange func(intake.Report)) error {
	return s.in.Watch(ctx, s.Scan, s.due, onChange)
}

// due waits for the time of the next scan.
func (s *Sitemap) due(ctx context.Context) error {
	if s.o.ScanInterval < 0 {
		return intake.Forever(ctx)
	}
	if s.file == "" {
		return intake.Sleep(ctx, s.o.ScanInterval)
	}
	s.scanning.Lock()
	seen := s.seen
	s.scanning.Unlock()
	next := time.Now().Add(s.o.ScanInterval)
	for time.Now().Before(next) {
		if err := intake.Sleep(ctx, min(intake.FileInterval, time.Until(next))); err != nil {
			return err
		}
		if filestat.MarkAt(s.file) != seen {
			return intake.Sleep(ctx, intake.Quiet)
		}
	}
	return ctx.Err()
}

// Bitstream opens the representation of r, which is wherever its URI says. See
// [Web.Bitstream].
func (s *Sitemap) Bitstream(ctx context.Context, r *catalog.Record) (io.ReadCloser, error) {
	return s.web.Bitstream(ctx, r)
}

// memory is how the documents stood when they had been taken in.
type memory struct {
	Rules   string              `json:"rules"` // how they were read
	Address string              `json:"address"`
	Point   intake.Point        `json:"point"`
	Shared  bool                `json:"shared"`  // some resource is listed by two documents
	Undated bool                `json:"undated"` // of some resource its own server has to be asked
	Docs    map[string]document `json:"docs"`    // by URI; those without validators are not there
}

// A document is what was remembered of one document.
type document struct {
	ETag     string   `json:"etag,omitempty"`
	Modified string   `json:"modified,omitempty"`
	Mark     string   `json:"mark,omitempty"`  // of a file
	Index    bool     `json:"index,omitempty"` // it lists
	Parts    []string `json:"parts,omitempty"` // these
}

// rules tells how documents are read: with other rules they are read again.
func (s *Sitemap) rules() string {
	rules := "1"
	if s.o.Content {
		for _, a := range s.o.Algorithms {
			rules += " " + a.String()
		}
	}
	return rules
}

// partID is what the Tokens of the resources listed by a document begin with.
func partID(uri string) string {
	return string(listed.AppendFingerprint(nil, []byte(uri)))[:partSize]
}

const partSize = 8 // characters

// A entryToken is a Token: of the document, of the entry, and behind these the
// validators of the resource's own server, if that has to be asked.
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
