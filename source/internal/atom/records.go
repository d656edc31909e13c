package atom

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"lockstep/atompmh"
	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source/internal/describe"
	"lockstep/source/internal/document"
	"lockstep/source/internal/names"
)

// A representation is what a feed says of a resource.
type representation struct {
	uri, typ   string
	length     int64
	canonical  string   // another resource that it is a representation of, if that agrees; "": none
	id         string   // of the record, where it has been given one
	alternates []string // that it says are representations of the same, in order
	links      []atompmh.Link
	seq        catalog.Seq
	event      time.Time
}

// unknownType is what a resource is served as whose media type is not known.
const unknownType = "application/octet-stream"

// entryLinks are the relations of resources that go along with entries.
var entryLinks = map[string]bool{"collection": true, "describedby": true, "via": true, "profile": true, "license": true, "author": true}

// represent returns what a feed says of r, given the entry it has in lists.
func represent(r *catalog.Record, e *resourcesync.Entry) *representation {
	v := &representation{uri: r.URI, typ: r.Type, length: r.Length, seq: r.Seq, event: r.EventTime}
	if v.typ == "" {
		v.typ = unknownType // AP-ACT-05: what it is served as
	}
	for i := range e.Links {
		l := &e.Links[i]
		switch {
		case l.Rel == catalog.RelRecord:
			if v.id == "" && absoluteIRI(l.Href) && l.Href != atompmh.RecordID(r.URI) {
				v.id = l.Href
			}
		case l.Href == r.URI:
		case l.Rel == "canonical":
			v.canonical = cmp.Or(v.canonical, l.Href)
		case l.Rel == "alternate":
			v.alternates = append(v.alternates, l.Href)
		case entryLinks[l.Rel]:
			v.links = append(v.links, atompmh.Link{Rel: l.Rel, Href: l.Href, Type: l.Type})
		}
	}
	return v
}

// absoluteIRI reports whether s can identify something (AP-DOC-09).
func absoluteIRI(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Scheme != "" && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || unicode.IsControl(r) || strings.ContainsRune(`<>"{}|\^`+"`", r)
	})
}

// alone reports whether nothing that v says makes it part of a group.
func (v *representation) alone() bool {
	return v.canonical == "" && v.id == "" && len(v.alternates) == 0
}

// A view looks resources up, and finds out which belong together.
//
// A record is a resource with its further representations: those resources of the
// set that it links to as alternates, that say it is their canonical one, and
// whose media types it does not have yet (AP-DOC-07). Every other resource is a
// record by itself (AP-GEN-04), so that none is in two entries, and none in none.
type view struct {
	log       *slog.Logger
	catalog   catalog.Catalog
	key       string // of the set in the catalog
	below     names.Place
	seen      map[string]*representation // nil: there is no such resource
	describes *describe.Describer
	try       *atompmh.Writer // writes to nowhere
}

func newView(docs *document.Store, c catalog.Catalog, set *Set) *view {
	return &view{log: docs.Log, catalog: c, key: docs.CapabilityList(set.Name), below: set.Rules.Below, seen: make(map[string]*representation), describes: set.Rules.Describer()}
}

// viewCached is how many resources a view holds.
const viewCached = 50_000

// represent returns what a feed says of a resource, and keeps nothing.
func (v *view) represent(r *catalog.Record) *representation {
	var e resourcesync.Entry
	v.describes.Resource(&e, r)
	return represent(r, &e)
}

// find returns the resource of that URI as it is now, nil if there is none.
func (v *view) find(ctx context.Context, uri string) (*representation, error) {
	if r, ok := v.seen[uri]; ok {
		return r, nil
	}
	if uri == "" || strings.IndexByte(uri, 0) >= 0 {
		return nil, nil
	}
	if len(v.seen) >= viewCached {
		clear(v.seen)
	}
	record, err := v.lookUp(ctx, uri)
	if err != nil {
		return nil, err
	}
	v.seen[uri] = record
	return record, nil
}

func (v *view) lookUp(ctx context.Context, uri string) (*representation, error) {
	r, ok, err := catalog.Find(ctx, v.catalog, v.key, uri)
	if err != nil || !ok {
		return nil, err
	}
	return v.represent(&r), nil
}

// members returns the further representations of the record x, in order.
func (v *view) members(ctx context.Context, x *representation) ([]*representation, error) {
	if x.canonical != "" || len(x.alternates) == 0 {
		return nil, nil
	}
	var all []*representation
	types := map[string]bool{x.typ: true}
	for _, uri := range x.alternates {
		y, err := v.find(ctx, uri)
		if err != nil {
			return nil, err
		}
		if y != nil && y.canonical == x.uri && !types[y.typ] {
			types[y.typ] = true
			all = append(all, y)
		}
	}
	return all, nil
}

// place returns what r is in the feed: a representation of the resource main,
// or, where main is "", the record id with members.
func (v *view) place(ctx context.Context, r *representation) (main, id string, members []*representation, err error) {
	id = atompmh.RecordID(r.uri)
	if r.canonical != "" {
		x, err := v.find(ctx, r.canonical)
		if err != nil {
			return "", "", nil, err
		}
		if x != nil {
			members, err := v.members(ctx, x)
			if err != nil {
				return "", "", nil, err
			}
			if slices.ContainsFunc(members, func(m *representation) bool { return m.uri == r.uri }) {
				return x.uri, "", nil, nil
			}
			return "", id, nil, nil // the identifier it may have is that of x
		}
	}
	members, err = v.members(ctx, r)
	return "", cmp.Or(r.id, id), members, err
}

// groupOf returns what is to be remembered of a resource that has a place.
func groupOf(uri, main, id string, members []*representation) *group {
	g := &group{Main: main}
	if main != "" {
		return g
	}
	if id != atompmh.RecordID(uri) {
		g.ID = id
	}
	for _, m := range members {
		g.Members = append(g.Members, m.uri)
	}
	return g
}

// active makes e the entry of a record that is there (AP-ACT-02, AP-ACT-05,
// AP-ACT-07). Its time is given out later. It reports false for a record that no
// document can state: one bad record must not keep all others from it.
func (v *view) active(e *atompmh.Entry, id string, main *representation, members []*representation) bool {
	*e = atompmh.Entry{ID: id, Title: v.title(main.uri), Kind: atompmh.Active}
	if !absoluteIRI(main.uri) {
		return v.refuse(main.uri, errNoURI)
	}
	for _, r := range append([]*representation{main}, members...) {
		if absoluteIRI(r.uri) {
			e.Links = append(e.Links, atompmh.Link{Rel: atompmh.RelAlternate, Href: r.uri, Type: r.typ, Length: max(r.length, 0)})
		}
	}
	own := e.Links
	e.Links = append(e.Links, main.links...)
	if v.fits(e) == nil {
		return true
	}
	e.Links = own
	if v.fits(e) == nil {
		return true
	}
	e.Links = []atompmh.Link{{Rel: atompmh.RelAlternate, Href: main.uri, Type: unknownType}}
	if err := v.fits(e); err != nil {
		return v.refuse(main.uri, err)
	}
	return true
}

var errNoURI = errors.New("its address is no URI")

// refuse logs that a resource is left out.
func (v *view) refuse(uri string, err error) bool {
	v.log.Warn("resource cannot be listed in an atom feed", slog.String("uri", uri), slog.Any("err", err))
	return false
}

// fits reports what keeps e from being in a document.
func (v *view) fits(e *atompmh.Entry) error {
	far := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	if v.try == nil {
		var err error
		if v.try, err = atompmh.NewWriter(io.Discard, atompmh.Feed{ID: "urn:x", Title: "x", Author: "x", Self: "urn:x", Updated: far}); err != nil {
			return err // unreachable: it is right
		}
	}
	e.Updated = far
	return v.try.Write(e)
}

// deletion makes e the entry of a record that is gone (AP-DEL-04, AP-DEL-05);
// uri may be "" where that is not known any more.
func (v *view) deletion(e *atompmh.Entry, id, uri string) {
	*e = atompmh.Entry{ID: id, Title: "Deleted", Kind: atompmh.Deletion}
	if uri != "" {
		e.Title = v.title(uri) + ", deleted"
	}
}

// title returns a hint at what the resource is: its path in the set, decoded.
func (v *view) title(uri string) string {
	title := uri
	if _, plain, inside := v.below.Find(uri); inside && plain != "" {
		title = plain
	}
	title = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(title, "\uFFFD"))
	return title
}

// errLost reports that what was published is not as it was left.
var errLost = errors.New("the feed was changed by another program")
