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

// The kinds of harvestable addresses that are not ResourceSync. Each is also
// the prefix that selects the kind: atom-pmh:https://…
const (
	AtomPMH = "atom-pmh" // an Atom feed
	OAIPMH  = "oai-pmh"  // an OAI-PMH 2.0 repository
)

const (
	maxFeeds = 5    // taken from one page, and from its header: each costs a request
	maxTitle = 1000 // bytes stored of a title
)

// A Foreign is an address that is not ResourceSync, and has to be harvested by
// another protocol.
type Foreign struct {
	Kind  string // AtomPMH or OAIPMH
	URI   string // of the feed; the base URL of the repository, with metadataPrefix and set if the address had them
	Title string `json:",omitempty"` // its title, if it was read
}

// What returns the name of the kind for people.
func (f *Foreign) What() string {
	if f.Kind == AtomPMH {
		return "an Atom feed"
	}
	return "an OAI-PMH repository"
}

// errEntry reports an Atom document that is a single entry.
var errEntry = errors.New("an Atom entry, not a feed; give the address of the feed it is from")

// isRSS reports whether p is an RSS feed, which lists neither older entries nor
// deletions.
func (p *page) isRSS() bool {
	root, _ := firstElement(p.head())
	return root.Local == "rss" || root.Local == "RDF" && bytes.Contains(p.head(), []byte("http://purl.org/rss/1.0/"))
}

// An atomEntry has the properties that distinguish an entry about a record from
// a news article.
type atomEntry struct {
	Links []struct {
		Rel  string `xml:"rel,attr"`
		Type string `xml:"type,attr"`
	} `xml:"http://www.w3.org/2005/Atom link"`
	Content *struct {
		Inside string `xml:",innerxml"`
	} `xml:"http://www.w3.org/2005/Atom content"`
}

// article reports whether e contains its subject as content.
func (e *atomEntry) article() bool {
	return e.Content != nil && strings.TrimSpace(e.Content.Inside) != ""
}

// record reports whether e has the form of Atom-PMH: it links to a
// representation and states its type, or reports its deletion.
func (e *atomEntry) record() bool {
	for _, l := range e.Links {
		if (l.Rel == "" || l.Rel == atompmh.RelAlternate) && l.Type != "" {
			return !e.article()
		}
	}
	return e.Content != nil && !e.article()
}

// mostly reports whether is returns true for more than half of the entries in
// the first part of p; also whether there are any.
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

// oaiArguments are those of the six verbs (OAI-PMH 2.0, 4): they select what a
// request returns and are not part of the base URL.
var oaiArguments = []string{"verb", "identifier", "resumptionToken", "from", "until"}

// foreign reports whether p can be harvested by another protocol, from its
// first part alone. It fails if p should be such a document but is unusable.
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

// withoutJunk removes bytes before an OAI-PMH response.
func withoutJunk(head []byte) []byte {
	if !bytes.Contains(head, []byte("OAI-PMH")) {
		return head
	}
	plain, _ := io.ReadAll(oaipmh.Clean(bytes.NewReader(head))) // reading memory never fails
	return plain
}

// head returns the beginning of p, unpacked if p is a gzip file.
func (p *page) head() []byte {
	head, _ := p.text.Peek(documentBuffer) // a shorter document is returned whole
	if !bytes.HasPrefix(head, []byte{0x1f, 0x8b}) {
		return head
	}
	z, err := gzip.NewReader(bytes.NewReader(head))
	if err != nil {
		return nil
	}
	plain := make([]byte, documentBuffer)
	n, _ := io.ReadFull(z, plain) // it ends where head ends
	return plain[:n]
}

// firstElement returns the name of the root element of a document, and a
// decoder positioned behind it; an empty name if head has none, or if a document type
// declaration comes first: supported documents have none.
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

// textOf returns the text of the first element with that name before one whose
// local name is end, as far as d can be read.
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

// repositoryOf returns the base URL of the repository that answered uri, with
// the arguments that select records.
func repositoryOf(uri string) string {
	return editQuery(uri, func(name string) bool { return !slices.Contains(oaiArguments, name) })
}

// identifyOf returns the Identify request of a repository, if uri could be one.
func identifyOf(uri string) string {
	keep := func(name string) bool {
		return !slices.Contains(oaiArguments, name) && name != "metadataPrefix" && name != "set"
	}
	return oaipmh.URL(editQuery(uri, keep), oaipmh.VerbIdentify)
}

// editQuery returns uri with only the arguments of its query for whose names
// keep returns true, in their original spelling.
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

// probe is named for an address without a scheme: it uses the first scheme that
// gets an answer, whatever the answer is.
func (f *finder) probe(ctx context.Context, kind, uri string) error {
	ask := uri
	if kind == OAIPMH {
		ask = identifyOf(uri)
	}
	p, err := f.open(ctx, ask)
	var status *fetch.StatusError
	switch {
	case err == nil:
		_ = p.close() // only its existence mattered
	case !errors.As(err, &status) || status.Status == http.StatusBadRequest && f.once:
		return err
	}
	return f.found.named(kind, uri)
}

// mayBeRepository reports whether u looks like the address of a repository, so
// that an Identify request is worth sending first.
func mayBeRepository(u *url.URL) bool {
	return strings.Contains(strings.ToLower(u.Path+"?"+u.RawQuery), "oai") || u.Query().Has("verb")
}

// identify asks whether there is a repository at uri whose answer to an address
// without arguments is an HTML page or an error. It fails if the server does not
// answer; if the address looks like that of a repository, also if it is
// temporarily unavailable.
func (f *finder) identify(ctx context.Context, uri string, likely bool) error {
	ask := identifyOf(uri)
	if f.seen[ask] {
		return nil
	}
	p, err := f.open(ctx, ask)
	var status *fetch.StatusError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &status) && !(likely && retryable(status.Status)), errors.Is(err, fetch.ErrTooLarge):
		f.found.failed(ask, err)
		return nil
	case err != nil:
		return err
	}
	defer p.close() // only its first part was needed
	o, err := p.foreign()
	if err == nil && o != nil && o.Kind == OAIPMH {
		o.URI = repositoryOf(uri)
		f.found.take(o)
	}
	return nil
}

// lastResort is used when no conventional location had a document: it tries the
// feeds that the page links to, and an Identify request. err is the result of
// the search.
func (f *finder) lastResort(ctx context.Context, uri string, err error) error {
	if !errors.Is(err, ErrNoSource) {
		return err
	}
	for _, feed := range f.feeds[:min(len(f.feeds), 2*maxFeeds)] {
		if f.seen[withoutFragment(feed)] {
			continue
		}
		p, err := f.open(ctx, feed)
		if err != nil {
			f.found.failed(feed, err)
			continue
		}
		o, err := p.foreign()
		records, some := p.mostly((*atomEntry).record)
		_ = p.close() // only its first part was needed
		switch {
		case err != nil:
			f.found.failed(feed, err)
		case o == nil || o.Kind != AtomPMH:
			f.found.step(feed, "linked as an Atom feed, but none")
		case some && !records:
			f.found.step(feed, "a feed of news, as blogs have, not of records; give its own address to have what its entries link to")
		default:
			f.found.take(o)
			return nil
		}
	}
	if err := f.identify(ctx, uri, false); err != nil || f.found.Foreign != nil {
		return err
	}
	return f.found.nothing()
}

// isAtom reports whether t is the media type of Atom feeds.
func isAtom(t string) bool {
	t, _, _ = strings.Cut(t, ";")
	return strings.EqualFold(strings.TrimSpace(t), atompmh.MediaType)
}
