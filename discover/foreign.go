package discover

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"lockstep/atompmh"
	"lockstep/internal/fetch"
	"lockstep/oaipmh"
)

// The kinds of what is no ResourceSync but can be harvested. Each is also the
// prefix by which an address says that it is one: atom-pmh:https://…
const (
	AtomPMH = "atom-pmh" // a feed of Atom
	OAIPMH  = "oai-pmh"  // a repository of OAI-PMH 2.0
)

const (
	maxFeeds = 5    // taken from one page, and from its header: each costs a request
	maxTitle = 1000 // bytes kept of one
)

// A Foreign is what an address led to that is no ResourceSync: somebody else
// has to harvest it.
type Foreign struct {
	Kind  string // AtomPMH or OAIPMH
	URI   string // of the feed; the base URL of the repository, with metadataPrefix and set if the address had them
	Title string `json:",omitempty"` // what it calls itself, if that was seen
}

// What names the kind for people.
func (f *Foreign) What() string {
	if f.Kind == AtomPMH {
		return "an Atom feed"
	}
	return "an OAI-PMH repository"
}

// errEntry reports an Atom document of one entry.
var errEntry = errors.New("an Atom entry, not a feed; give the address of the feed it is from")

// isRSS reports whether p is a feed of RSS: it tells neither what came before nor
// what is gone.
func (p *page) isRSS() bool {
	root, _ := firstElement(p.head())
	return root.Local == "rss" || root.Local == "RDF" && bytes.Contains(p.head(), []byte("http://purl.org/rss/1.0/"))
}

// An atomEntry is what tells an entry about a record from one of other news.
type atomEntry struct {
	Links []struct {
		Rel  string `xml:"rel,attr"`
		Type string `xml:"type,attr"`
	} `xml:"http://www.w3.org/2005/Atom link"`
	Content *struct {
		Inside string `xml:",innerxml"`
	} `xml:"http://www.w3.org/2005/Atom content"`
}

// article reports whether e brings what it is about as content.
func (e *atomEntry) article() bool {
	return e.Content != nil && strings.TrimSpace(e.Content.Inside) != ""
}

// record reports whether e is of the form Atom-PMH has: it leads to a
// representation, whose type it states, or tells that there is none any more.
func (e *atomEntry) record() bool {
	for _, l := range e.Links {
		if (l.Rel == "" || l.Rel == atompmh.RelAlternate) && l.Type != "" {
			return !e.article()
		}
	}
	return e.Content != nil && !e.article()
}

// mostly reports whether is holds for more than half of the entries of p, as far
// as its beginning shows; also whether there are any.
func (p *page) mostly(is func(*atomEntry) bool) (yes, some bool) {
	_, d := firstElement(p.head())
	all, those := 0, 0
	for d != nil {
		t, err := d.Token()
		if err != nil {
			break
		}
		start, ok := t.(xml.StartElement)
		if !ok || start.Name.Local != "entry" {
			continue
		}
		var e atomEntry
		if d.DecodeElement(&e, &start) != nil {
			break // cut off
		}
		if all++; is(&e) {
			those++
		}
	}
	return 2*those > all, all > 0
}

// oaiArguments are those of the six verbs (OAI-PMH 2.0, 4): what an address
// with one of them asks for is not what its repository is called.
var oaiArguments = []string{"verb", "identifier", "resumptionToken", "from", "until"}

// foreign looks whether p is something to be harvested, without reading on. It
// fails if p is what should have been, but is of no use.
func (p *page) foreign() (*Foreign, error) {
	root, d := firstElement(withoutJunk(p.head()))
	switch {
	case root.Space == atompmh.Namespace && root.Local == "feed":
		return &Foreign{AtomPMH, withoutFragment(p.uri), textOf(d, xml.Name{Space: atompmh.Namespace, Local: "title"}, "entry")}, nil
	case root.Space == atompmh.Namespace && root.Local == "entry":
		return nil, fmt.Errorf("read %s: %w", fetch.Printable(p.uri), errEntry)
	case root.Local == "OAI-PMH" && (root.Space == oaipmh.Namespace || root.Space == ""):
		return &Foreign{OAIPMH, repositoryOf(p.uri), textOf(d, xml.Name{Space: root.Space, Local: "repositoryName"}, "record")}, nil
	}
	return nil, nil
}

// withoutJunk leaves out what is in front of a response of OAI-PMH.
func withoutJunk(head []byte) []byte {
	if !bytes.Contains(head, []byte("OAI-PMH")) {
		return head
	}
	plain, _ := io.ReadAll(oaipmh.Clean(bytes.NewReader(head))) // reading memory never fails
	return plain
}

// head returns the beginning of p, unpacked if p is a gzip file.
func (p *page) head() []byte {
	head, _ := p.text.Peek(documentBuffer) // what is shorter is the whole
	if !bytes.HasPrefix(head, []byte{0x1f, 0x8b}) {
		return head
	}
	z, err := gzip.NewReader(bytes.NewReader(head))
	if err != nil {
		return nil
	}
	plain := make([]byte, documentBuffer)
	n, _ := io.ReadFull(z, plain) // it is cut off where head is
	return plain[:n]
}

// firstElement returns the name of the root of a document, and what goes on
// behind it; an empty name if there is none in head. What declares a document
// type is none of ours.
func firstElement(head []byte) (xml.Name, *xml.Decoder) {
	d := xml.NewDecoder(bytes.NewReader(head))
	d.Strict = false
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil } // names are ASCII
	for {
		t, err := d.Token()
		if err != nil {
			return xml.Name{}, nil
		}
		switch t := t.(type) {
		case xml.StartElement:
			return t.Name, d
		case xml.Directive:
			return xml.Name{}, nil
		}
	}
}

// textOf returns the text of the first element of that name before one whose
// local name is end, as far as d goes.
func textOf(d *xml.Decoder, name xml.Name, end string) string {
	for {
		t, err := d.Token()
		if err != nil {
			return ""
		}
		start, ok := t.(xml.StartElement)
		switch {
		case ok && start.Name.Local == end:
			return ""
		case ok && start.Name == name:
			var text string
			if d.DecodeElement(&text, &start) != nil {
				return ""
			}
			text = strings.Join(strings.Fields(text), " ")
			return fetch.Printable(strings.ToValidUTF8(text[:min(len(text), maxTitle)], ""))
		}
	}
}

// repositoryOf returns the base URL of the repository that answered uri. What
// says which records are meant stays.
func repositoryOf(uri string) string {
	return editQuery(uri, func(name string) bool { return !slices.Contains(oaiArguments, name) })
}

// identifyOf returns the address at which a repository tells about itself, if
// there is one at uri.
func identifyOf(uri string) string {
	keep := func(name string) bool {
		return !slices.Contains(oaiArguments, name) && name != "metadataPrefix" && name != "set"
	}
	return oaipmh.URL(editQuery(uri, keep), oaipmh.VerbIdentify)
}

// editQuery keeps of the query of uri, as it is written, the arguments whose
// names keep agrees with.
func editQuery(uri string, keep func(name string) bool) string {
	base, query, _ := strings.Cut(withoutFragment(uri), "?")
	var kept []string
	for arg := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(arg, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if arg != "" && keep(name) {
			kept = append(kept, arg)
		}
	}
	if len(kept) == 0 {
		return base
	}
	return base + "?" + strings.Join(kept, "&")
}

func withoutFragment(uri string) string {
	uri, _, _ = strings.Cut(uri, "#")
	return uri
}

// take makes of o what the address led to.
func (f *finder) take(o *Foreign) {
	f.found.Foreign = o
	if o.Title != "" {
		f.step(o.URI, "%s: %s", o.What(), o.Title)
	} else {
		f.step(o.URI, "%s", o.What())
	}
}

// named takes an address at its word: it says by its prefix what is there, and
// nothing has to be asked.
func (f *finder) named(kind, uri string) error {
	u, err := url.Parse(uri)
	if err != nil {
		return fmt.Errorf("%s: not a valid URI", fetch.Printable(uri))
	}
	f.found.Origin = u.Scheme + "://" + u.Host
	o := &Foreign{Kind: kind, URI: withoutFragment(uri)}
	if kind == OAIPMH {
		o.URI = repositoryOf(uri)
	}
	f.found.Foreign = o
	f.step(o.URI, "named as %s", o.What())
	return nil
}

// probe is named for an address without a scheme: it is used with the first
// one by which somebody answers, whatever the answer is.
func (f *finder) probe(kind, uri string) error {
	ask := uri
	if kind == OAIPMH {
		ask = identifyOf(uri)
	}
	p, err := f.open(ask)
	var status *fetch.StatusError
	switch {
	case err == nil:
		_ = p.close() // that it is there was to be known
	case !errors.As(err, &status) || status.Status == http.StatusBadRequest && f.once:
		return err
	}
	return f.named(kind, uri)
}

// mayBeRepository reports whether u is called as many repositories are, so that
// it is worth asking it before everything else.
func mayBeRepository(u *url.URL) bool {
	return strings.Contains(strings.ToLower(u.Path+"?"+u.RawQuery), "oai") || u.Query().Has("verb")
}

// identify asks whether there is a repository at uri whose answer to an
// address without arguments is a page for people, or an error. It fails if the
// server does not answer; where the address looks like that of a repository, also
// if it is temporarily out of order.
func (f *finder) identify(uri string, likely bool) error {
	ask := identifyOf(uri)
	if f.seen[ask] {
		return nil
	}
	p, err := f.open(ask)
	var status *fetch.StatusError
	switch {
	case f.ctx.Err() != nil:
		return context.Cause(f.ctx)
	case errors.As(err, &status) && !(likely && retryable(status.Status)), errors.Is(err, fetch.ErrTooLarge):
		f.failed(ask, err)
		return nil
	case err != nil:
		return err
	}
	defer p.close() // its beginning was of use
	o, err := p.foreign()
	if err == nil && o != nil && o.Kind == OAIPMH {
		o.URI = repositoryOf(uri)
		f.take(o)
	}
	return nil
}

// lastResort is what is left when no custom led to a document: the feeds the
// page links to, and asking whether it is a repository. err is what came of the
// customs.
func (f *finder) lastResort(uri string, err error) error {
	if !errors.Is(err, ErrNoSource) {
		return err
	}
	for _, feed := range f.feeds[:min(len(f.feeds), 2*maxFeeds)] {
		if f.seen[withoutFragment(feed)] {
			continue
		}
		p, err := f.open(feed)
		if err != nil {
			f.failed(feed, err)
			continue
		}
		o, err := p.foreign()
		records, some := p.mostly((*atomEntry).record)
		_ = p.close() // its beginning was of use
		switch {
		case err != nil:
			f.failed(feed, err)
		case o == nil || o.Kind != AtomPMH:
			f.step(feed, "linked as an Atom feed, but none")
		case some && !records:
			f.step(feed, "a feed of news, as blogs have, not of records; give its own address to have what its entries link to")
		default:
			f.take(o)
			return nil
		}
	}
	if err := f.identify(uri, false); err != nil || f.found.Foreign != nil {
		return err
	}
	return f.nothing()
}

// isAtom reports whether t is the media type of feeds.
func isAtom(t string) bool {
	t, _, _ = strings.Cut(t, ";")
	return strings.EqualFold(strings.TrimSpace(t), atompmh.MediaType)
}
