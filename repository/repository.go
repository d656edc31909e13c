// Package repository serves a catalog by OAI-PMH 2.0, so that harvesters without
// support for ResourceSync can read a Source like any other repository.
//
// A [Repository] is an http.Handler for the six verbs. Each set of the catalog is
// a set of the repository. Each resource is an item: its identifier is the id of
// its record, or else its URI; its datestamp is the time of its last change in
// the catalog. A resource in several sets is one item. Every item is available as
// oai_dc, generated from the catalog's record; an item whose content is XML is
// also available in the format of that content.
//
//	repo, err := repository.New(cat, repository.Options{
//		BaseURL: "https://data.example.org/oai", Sets: sets,
//	})
//	http.Handle("/oai", repo)
//
// Lists by datestamp and by format are read from an index next to the catalog,
// which requests update (refresh.go). It records deletions permanently.
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
	"lockstep/internal/iri"
)

// Defaults of a Repository.
const (
	defaultRecords = 500
	defaultHeaders = 2_000

	// pageBytes is the size at which a page is full, whatever it contains, so that
	// a harvester that must repeat a truncated page does not wait for long.
	pageBytes = 4 << 20

	// maxDocument is the maximum size of content that can be a record: it limits
	// the memory used by one document per client.
	maxDocument = 4 << 20

	// largeDocument is the size from which content waits for one of largeAtOnce
	// places: it limits the memory used by many clients that read slowly. A request
	// that gets none in time is answered with Retry-After.
	largeDocument = 64 << 10
	largeAtOnce   = 16

	// patience is how long a request waits for the index to be updated before it is
	// answered with Retry-After.
	patience = 10 * time.Second
	retry    = "10" // seconds
)

// A Set is a set of the catalog that is offered to harvesters.
type Set struct {
	Name    string // setSpec (OAI-PMH 2.0, 2.6), without colons
	Title   string // setName; default Name
	Summary string // setDescription; may be empty
	Catalog string // its name in the catalog

	// Private limits the set to requests that WithReader of package source marks: all others are
	// answered as if there were no such set.
	Private bool

	// Collections offers each URI that collection links of resources name as a set of
	// its own within this one (collection.go).
	Collections bool

	// Open opens the content of a resource; it returns fs.ErrNotExist if that was
	// deleted. Each resource whose type is XML is read through it once after a
	// change, and whenever it is requested in a format of its own. Without Open,
	// oai_dc is the only format.
	Open func(ctx context.Context, r *catalog.Record) (io.ReadCloser, error)
}

// Options configures a [Repository]. BaseURL and Sets are required.
type Options struct {
	BaseURL string // its address, without a query
	Name    string // for people; default: the host of BaseURL
	Admin   string // e-mail address of the administrator; default: postmaster at that host
	Sets    []Set
	Records int // per response; default 500
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
	large   chan struct{} // has one element for each large document in memory

	secrecy sync.Mutex // guards secret; held across I/O on purpose: it is loaded once
	secret  []byte     // signs tokens; nil until it was loaded

	offering sync.Mutex // guards offered; held across I/O on purpose: it is done once
	offered  bool       // the catalog has a record of the sets
}

// mail matches slightly fewer addresses than the schema of Identify allows.
var mail = regexp.MustCompile(`^[^\s@<>]+@([^\s@<>.]+\.)+[^\s@<>.]+$`)

// setSpec matches valid names of sets (OAI-PMH 2.0, 2.6).
var setSpec = regexp.MustCompile(`^[A-Za-z0-9_.!~*'()-]+$`)

// New returns a Repository of the sets in c. It does not read or write yet.
func New(c catalog.Catalog, o Options) (*Repository, error) {
	u, err := url.Parse(o.BaseURL)
	if plain, had := iri.WithoutUser(o.BaseURL); had || err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("base URL %q of the repository: want http://HOST/PATH, without a user name and a query", plain)
	}
	if len(o.Sets) == 0 {
		return nil, errors.New("a repository needs at least one set")
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

// postmaster returns the administrative address of a host (RFC 2142), in the
// form that OAI-PMH requires.
func postmaster(host string) string {
	if !strings.Contains(host, ".") || net.ParseIP(host) != nil {
		host = "localhost.localdomain"
	}
	return "postmaster@" + host
}

// Refresh updates the index from the catalog. Requests do so themselves, but
// need not wait if it was done beforehand. If ctx ends, completed work is kept. Sets
// that have not been published are left out; the error then matches ErrNotPublished.
func (r *Repository) Refresh(ctx context.Context) error {
	if err := r.noteSets(ctx); err != nil {
		return err
	}
	var waiting error
	for _, x := range r.sets {
		if err := x.refresh(ctx); errors.Is(err, ErrNotPublished) {
			waiting = err
		} else if err != nil {
			return err
		}
	}
	return waiting
}
