// Package discover finds the documents of a Source from any address a user may have, and opens
// them.
//
// [Find] takes the address and returns the Source's sets, the capabilities of each, and the steps
// that led there. [Open] opens one document:
//
//	found, err := discover.Find(ctx, client, "example.org")
//	doc, err := discover.Open(ctx, client, found.Sets[0].URI(resourcesync.ResourceList), discover.Validators{})
//	for entry, err := range doc.Entries() {
package discover

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"lockstep/atompmh"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
	"lockstep/websub"
)

// WellKnown is the path of a Source Description (RS-DISC-02).
const WellKnown = "/.well-known/resourcesync"

// relation is that of links from a resource to the Capability List that covers
// it.
const relation = "resourcesync"

const (
	maxHops  = 5    // of up and index, from one document to the next (RS-DISC-10)
	maxPages = 2000 // opened by one Find: what a Source names must not keep us reading forever
)

// ErrNoSource reports an address from which no document could be found.
var ErrNoSource = errors.New("no ResourceSync document, Sitemap, Atom feed or OAI-PMH repository found")

// errPages ends a Find whose documents keep naming further documents.
var errPages = fmt.Errorf("more than %d documents on the way", maxPages)

// errEmpty reports a document without content. It may be one of the standard whose content
// was lost, so it is no reason to look elsewhere.
var errEmpty = errors.New("it is empty")

// Find finds the documents of a Source from addr: the URI of any part of a
// Source or of a page that links to one, a host, or a file (RS-DISC-11). A
// Capability List or anything below it selects only that set, anything above it
// all sets (RS-SD-10). A set whose Capability List could not be read has its
// Err set; Find fails if that is true of all sets.
func Find(ctx context.Context, c *fetch.Client, addr string) (*Found, error) {
	a, err := parseAddress(addr)
	if err != nil {
		return nil, err
	}
	if a.file != "" {
		f := newFinder(c, a.file)
		return f.finish(f.fromFile(ctx, a.file))
	}
	if a.user != nil {
		addr = a.prefix() + a.uris[0]
	}
	var way []Step
	for i, uri := range a.uris {
		f := newFinder(c, addr)
		f.found.Way = way
		f.once = i < len(a.uris)-1
		err := f.begin(ctx, a, uri)
		if err == nil || !f.once || !elsewhere(err) {
			return f.finish(err)
		}
		f.drop()
		way = f.found.Way
	}
	return nil, ErrNoSource // unreachable: the last of the URIs returns
}

// begin starts at uri, one of those of a.
func (f *finder) begin(ctx context.Context, a address, uri string) error {
	switch {
	case a.kind == "":
		return f.start(ctx, uri)
	case len(a.uris) == 1:
		return f.found.named(a.kind, uri)
	}
	return f.probe(ctx, a.kind, uri)
}

// elsewhere reports whether the other scheme may work after err: there was no
// answer, or none in this scheme. An invalid certificate excludes it.
func elsewhere(err error) bool {
	var (
		failed  *fetch.Error
		status  *fetch.StatusError
		address *fetch.AddressError
		verify  *tls.CertificateVerificationError
	)
	switch {
	case !errors.As(err, &failed), errors.As(err, &address), errors.As(err, &verify), errors.Is(err, context.Canceled):
		return false
	case errors.As(err, &status):
		return status.Status == http.StatusBadRequest
	}
	return true
}

// A finder is the state of one Find.
type finder struct {
	client *fetch.Client
	found  *Found
	once   bool // one attempt per request: another scheme is still to be tried, or the links of a local file are followed
	local  bool // the address is a local file: links that lead up from it need not work
	seen   map[string]bool
	known  map[string]bool  // addresses at which there were lists before
	loads  map[string]*load // pages requested before it is their turn
	pages  int
	circle error    // the first cycle found
	vague  *bool    // whether the host answers requests for missing addresses with an HTML page; nil: not determined yet
	feeds  []string // to which the page at the address links
}

func newFinder(c *fetch.Client, addr string) *finder {
	return &finder{client: c, found: &Found{Address: addr}, seen: map[string]bool{}, loads: map[string]*load{}}
}

func (f *finder) finish(err error) (*Found, error) {
	f.drop()
	if err != nil {
		return nil, err
	}
	usable := 0
	for i := range f.found.Sets {
		if err == nil {
			err = f.found.Sets[i].Err
		}
		if f.found.Sets[i].Err == nil {
			usable++
		}
	}
	switch {
	case f.found.Foreign != nil:
		return f.found, nil
	case usable > 0:
		nameSets(f.found.Sets)
		return f.found, nil
	case f.circle != nil:
		return nil, f.circle
	case err != nil:
		return nil, err
	}
	return nil, fmt.Errorf("%s: %w", fetch.Printable(f.found.Address), ErrNoSource)
}

// A circleError reports a document that links back to one that led to it.
type circleError struct{ uri string }

func (e *circleError) Error() string {
	return fmt.Sprintf("read %s: the documents name each other in a circle", fetch.Printable(e.uri))
}

// open opens uri, once per Find.
func (f *finder) open(ctx context.Context, uri string) (*page, error) {
	key, _, _ := strings.Cut(uri, "#")
	if f.seen[key] {
		err := &circleError{uri}
		if f.circle == nil {
			f.circle = err
		}
		return nil, err
	}
	if f.pages++; f.pages > maxPages {
		return nil, fmt.Errorf("read %s: %w", fetch.Printable(uri), errPages)
	}
	f.seen[key] = true
	p, err := f.load(ctx, uri)
	if err == nil {
		f.seen[p.final] = true
	}
	return p, err
}

// openDocument opens uri, which must be a document.
func (f *finder) openDocument(ctx context.Context, uri string) (*Document, error) {
	p, err := f.open(ctx, uri)
	if err != nil {
		return nil, err
	}
	if _, err := p.text.Peek(1); errors.Is(err, io.EOF) {
		_ = p.close() // there was nothing to read
		return nil, readError(uri, errEmpty)
	}
	d, err := p.document()
	if err != nil {
		_ = p.close() // the error of reading is more important
		return nil, err
	}
	return d, nil
}

func (f *finder) fromFile(ctx context.Context, file string) error {
	p, err := f.open(ctx, fileURI(file))
	if err != nil {
		return err
	}
	defer p.close() // read as far as needed
	if o, err := p.foreign(); err != nil {
		return err
	} else if o != nil {
		return fmt.Errorf("read %s: %s in a file; it is harvested from its address on the web", fetch.Printable(file), o.What())
	}
	d, err := p.document()
	if err != nil {
		return err
	}
	f.once, f.local = true, true // it may name addresses that no longer exist
	return f.visit(ctx, d, false)
}

// start examines uri, whatever is there.
func (f *finder) start(ctx context.Context, uri string) error {
	u, err := url.Parse(uri)
	if err != nil {
		return fmt.Errorf("%s: not a valid URI", fetch.Printable(uri))
	}
	f.found.Origin = u.Scheme + "://" + u.Host
	if isBase(u) {
		f.ahead(ctx, true, rootOf(u).JoinPath(WellKnown).String())
	}
	p, err := f.open(ctx, uri)
	var status *fetch.StatusError
	if errors.As(err, &status) {
		f.found.failed(uri, err)
		return f.refused(ctx, u, status, err)
	}
	if err != nil {
		return err
	}
	f.once = false
	done, err := f.page(ctx, p, isRoot(u.Path))
	if cerr := p.close(); err == nil && cerr != nil {
		err = cerr
	}
	if done || err != nil {
		return err
	}
	if mayBeRepository(u) {
		if err := f.identify(ctx, uri, true); err != nil || f.found.Foreign != nil {
			return err
		}
	}
	there := u
	if final, err := url.Parse(p.final); err == nil {
		there = final
	}
	return f.lastResort(ctx, uri, f.search(ctx, there))
}

// refused continues after u was answered with an error.
func (f *finder) refused(ctx context.Context, u *url.URL, status *fetch.StatusError, err error) error {
	if mayBeRepository(u) { // an OAI-PMH request needs arguments
		if err := f.identify(ctx, u.String(), true); err != nil || f.found.Foreign != nil {
			return err
		}
	}
	if !siteLike(u.Path) || status.Status == http.StatusBadRequest {
		return err
	}
	f.once = false
	if retryable(status.Status) {
		return f.unavailable(ctx, u, err)
	}
	f.found.Absent = !isRoot(u.Path) && isGone(err)
	return f.lastResort(ctx, u.String(), f.search(ctx, u))
}

// unavailable continues after the page at u was temporarily unavailable with
// err: since it may announce a document, nothing is guessed. At the root of a
// host, the Source Description at the well-known URI leads to everything that
// such a page could.
func (f *finder) unavailable(ctx context.Context, u *url.URL, err error) error {
	if !isRoot(u.Path) {
		return err
	}
	if werr := f.wellKnown(ctx, rootOf(u).JoinPath(WellKnown).String()); werr != nil || f.found.announced() {
		return werr
	}
	return err
}

// page uses p, a document or a page that links to one. It reports whether that
// led to a document.
func (f *finder) page(ctx context.Context, p *page, all bool) (done bool, err error) {
	html, rss := p.looksLikeHTML(), p.isRSS()
	if !html {
		if o, err := p.foreign(); err != nil || o != nil {
			if err == nil {
				f.found.take(o)
			}
			if articles, _ := p.mostly((*atomEntry).article); err == nil && o.Kind == AtomPMH && articles {
				f.found.step(p.uri, "its entries have content, as those of blogs have: what they link to is taken, and kept when the feed has it no more")
			}
			return true, err
		}
		d, err := p.document()
		if err == nil {
			return true, f.visit(ctx, d, all)
		}
		if !errors.Is(err, resourcesync.ErrNotDocument) && !errors.Is(err, resourcesync.ErrHTML) {
			return false, err
		}
	}
	a := p.announces(html)
	targets, rest := a.targets, a.rest // rest: why the rest of the page was not read
	if limit := (*limitError)(nil); rest != nil && (len(targets) == 0 || !errors.As(rest, &limit)) {
		return false, rest
	}
	f.feeds = append(f.feeds, a.feeds...)
	how := "its Link header names"
	if a.byPage {
		how = "a page with a link to"
	}
	for _, target := range targets {
		if f.found.knows(target) || f.seen[withoutFragment(target)] {
			continue // the page names several sets, and the first has already led to the Source
		}
		f.found.step(p.uri, "%s %s", how, target)
		if err := f.follow(ctx, target, all); err != nil {
			f.found.unread(target, err)
		}
	}
	if rest != nil && !(f.found.All && f.found.usable()) {
		f.found.unread(p.uri, rest)
	}
	if len(targets) == 0 {
		what := "no ResourceSync document or Sitemap"
		switch {
		case html:
			what = "an HTML page"
		case rss:
			what = "an RSS feed, which lists neither earlier entries nor deletions, so it cannot be harvested as an Atom feed can"
		}
		f.found.step(p.uri, "%s, without a link to a ResourceSync document", what)
	} else if !(f.found.All && f.found.usable()) { // a Source Description lists all sets
		f.found.Page = p.linking(targets)
	}
	return f.found.announced(), context.Cause(ctx)
}

// An announcement is what a page, or the headers of any resource, link to.
type announcement struct {
	targets []string // of links with relation resourcesync
	feeds   []string // Atom feeds
	byPage  bool     // targets are linked by the page, not by its headers
	rest    error    // why the rest of the page was not read; nil: it was read as far as needed
}

// announces returns what p links to; html says that it is an HTML page.
func (p *page) announces(html bool) announcement {
	var a announcement
	for _, l := range p.links() {
		if l.Has(relation) {
			a.targets = append(a.targets, l.Target)
		}
		if l.Has(atompmh.RelAlternate) && isAtom(l.Param("type")) {
			a.feeds = append(a.feeds, l.Target)
		}
	}
	if base, err := url.Parse(p.final); err == nil && html && len(a.targets) == 0 {
		targets, feeds, err := parseHTML(p.text, base)
		if a.targets, a.byPage = targets, true; err != nil {
			a.rest = readError(p.uri, err)
		}
		a.feeds = append(a.feeds, feeds...)
	}
	return a
}

// linking returns p as the page that linked to targets.
func (p *page) linking(targets []string) Page {
	l := Page{URI: p.uri, Targets: hashOf(targets)}
	l.ETag, l.LastModified = fetch.Validators(p.header)
	return l
}

// follow visits the document at uri, the target of a link with relation
// resourcesync.
func (f *finder) follow(ctx context.Context, uri string, all bool) error {
	d, err := f.openDocument(ctx, uri)
	if err != nil {
		return err
	}
	defer d.Close()                // read as far as needed
	if d.Header.Capability == "" { // RS-DISC-12 applies to documents of the standard
		return fmt.Errorf("read %s: plain Sitemap, where a Capability List was expected", fetch.Printable(uri))
	}
	return f.visit(ctx, d, all)
}

// links returns the links of p's Link headers.
func (p *page) links() []websub.Link {
	base, err := url.Parse(p.final)
	if err != nil || p.header == nil {
		return nil
	}
	return websub.ParseLinks(p.header.Values("Link"), base)
}
