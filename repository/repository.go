// Package repository answers OAI-PMH 2.0 off a catalog: harvesters that know no
// ResourceSync read a Source through it, as they read any repository.
//
// A [Repository] is an http.Handler for the six verbs. Each set of the catalog is
// a set of the repository; each resource an item, whose identifier is the id its
// record came with, or else its URI; its datestamp the time of its last change,
// by the catalog. What several sets have is one item. Every item is to be had as
// oai_dc, made of what the catalog knows; one whose content is XML also in the
// format of that.
//
//	repo, err := repository.New(cat, repository.Options{
//		BaseURL: "https://data.example.org/oai", Sets: sets,
//	})
//	http.Handle("/oai", repo)
//
// Lists by datestamp, and by format, are read off an index beside the catalog,
// which is brought in step with it whenever somebody asks (refresh.go). It keeps
// deletions for good.
package repository

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"lockstep/catalog"
)

// What a Repository does unless told otherwise.
const (
	defaultRecords = 500
	defaultHeaders = 2_000

	// pageBytes is from when on a page is full, whatever it holds: a harvester
	// that must ask again for what was cut off should not wait for long.
	pageBytes = 4 << 20

	// maxDocument is how large content can be to be a record: memory filled by
	// one, of each client.
	maxDocument = 4 << 20

	// largeDocument is how large content must be to wait for one of largeAtOnce
	// places: memory filled by many clients that read slowly. Who gets none in
	// time is told to come again.
	largeDocument = 64 << 10
	largeAtOnce   = 16

	// patience is how long a request waits for the index to be in step, before
	// it is told to come again.
	patience = 10 * time.Second
	retry    = "10" // seconds
)

// A Set is one of the catalog's, offered to harvesters.
type Set struct {
	Name    string // setSpec (OAI-PMH 2.0, 2.6), without colons
	Title   string // setName; default Name
	Catalog string // what it is called in the catalog

	// Open opens the content of a resource; it fails with fs.ErrNotExist if that
	// is gone. Each resource whose type is XML is read through it once, when it
	// has changed, and whenever it is asked for in a format of its own. Without
	// it, there is nothing but oai_dc.
	Open func(ctx context.Context, r *catalog.Record) (io.ReadCloser, error)
}

// Options configures a [Repository]. BaseURL and Sets are required.
type Options struct {
	BaseURL string // where it answers, without a query
	Name    string // for people; default: the host of BaseURL
	Admin   string // e-mail address of who looks after it; default: postmaster at that host
	Sets    []Set
	Records int // in one response; default 500
	Headers int // likewise, of ListIdentifiers; default 2,000
	Now     func() time.Time
	Logger  *slog.Logger // default: discards
}

// A Repository serves sets of a catalog by OAI-PMH. All methods are safe for
// concurrent use.
type Repository struct {
	catalog catalog.Catalog
	opts    Options
	sets    []*index
	large   chan struct{} // has something in it for each large document in memory

	secrecy sync.Mutex // guards secret; held across IO, for that is its purpose
	secret  []byte     // signs tokens; nil until it was read
}

// mail is what the schema of Identify takes for an address, and a little less.
var mail = regexp.MustCompile(`^[^\s@<>]+@([^\s@<>.]+\.)+[^\s@<>.]+$`)

// setSpec is what a set may be called (OAI-PMH 2.0, 2.6).
var setSpec = regexp.MustCompile(`^[A-Za-z0-9_.!~*'()-]+$`)

// New returns a Repository of what c holds. It reads and writes nothing yet.
func New(c catalog.Catalog, o Options) (*Repository, error) {
	u, err := url.Parse(o.BaseURL)
	if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("base URL %q of the repository: want http://HOST/PATH, without a query", o.BaseURL)
	}
	if len(o.Sets) == 0 {
		return nil, errors.New("a repository needs a set at least")
	}
	if o.Name == "" {
		o.Name = u.Host
	}
	if o.Admin == "" {
		o.Admin = postmaster(u.Hostname())
	}
	if !mail.MatchString(o.Admin) {
		return nil, fmt.Errorf("e-mail address %q: want NAME@HOST.DOMAIN", o.Admin)
	}
	if o.Records <= 0 {
		o.Records = defaultRecords
	}
	if o.Headers <= 0 {
		o.Headers = defaultHeaders
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Repository{catalog: c, opts: o, large: make(chan struct{}, largeAtOnce)}
	seen := make(map[string]bool)
	for _, set := range o.Sets {
		if !setSpec.MatchString(set.Name) || seen[set.Name] {
			return nil, fmt.Errorf("set %q: want names of letters, digits and -_.!~*'(), each once", set.Name)
		}
		seen[set.Name] = true
		if set.Title == "" {
			set.Title = set.Name
		}
		r.sets = append(r.sets, newIndex(c, set, &r.opts))
	}
	return r, nil
}

// postmaster is the address that who runs a host reads (RFC 2142), in the form
// OAI-PMH wants.
func postmaster(host string) string {
	if !strings.Contains(host, ".") || net.ParseIP(host) != nil {
		host = "localhost.localdomain"
	}
	return "postmaster@" + host
}

// Refresh brings the index in step with the catalog. Requests do so themselves;
// done beforehand, they need not wait. What was done stays done when ctx ends.
func (r *Repository) Refresh(ctx context.Context) error {
	for _, x := range r.sets {
		if err := x.refresh(ctx); err != nil {
			return err
		}
	}
	return nil
}
