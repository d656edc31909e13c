package validate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"lockstep/resourcesync"
	"lockstep/validate/finding"
	"lockstep/validate/internal/feed"
	"lockstep/validate/internal/repository"
	"lockstep/validate/internal/tally"
	"lockstep/validate/internal/visit"
	"lockstep/validate/opener"
)

// wellKnownPath is the path of a Source Description (RS-DISC-02).
const wellKnownPath = "/.well-known/resourcesync"

// clockTick is the precision of times in HTTP.
const clockTick = time.Second

// A walk is one run over a Source.
type walk struct {
	visitor *visit.Visitor
	tally   *tally.Tally // of the current set; nil if none is needed

	served map[string]bool          // documents whose headers were checked
	kinds  map[string]finding.Kinds // of the documents found
	done   map[string]bool          // what was checked: sets, and documents by themselves
	secret map[string]bool          // documents that are answered to one client

	resourceLists []string // or their indexes, if they have one
}

// Source checks the Source of the document at address. From a Source
// Description it checks all sets, from a Capability List or anything below it
// only that set, and the documents above it.
//
// It returns an error if the run could not be finished: there is nothing at
// address, ctx has ended, or data for the comparison could not be stored. The
// Report contains what was found until then. All other problems are Findings.
func Source(ctx context.Context, open opener.Func, address string, o Options) (*finding.Report, error) {
	return Sources(ctx, open, []string{address}, o)
}

// Sources is [Source] for several addresses, in one [Run].
func Sources(ctx context.Context, open opener.Func, addresses []string, o Options) (*finding.Report, error) {
	r := NewRun(o)
	for _, address := range addresses {
		if err := r.Source(ctx, open, address); err != nil {
			if len(addresses) > 1 {
				err = fmt.Errorf("%s: %w", finding.Printable(address), err)
			}
			return r.Report(), err
		}
	}
	return r.Report(), nil
}

func newWalk(v *visit.Visitor) *walk {
	return &walk{visitor: v, served: make(map[string]bool), kinds: make(map[string]finding.Kinds), done: make(map[string]bool), secret: make(map[string]bool)}
}

// start begins at address, whatever is there.
func (w *walk) start(ctx context.Context, address string) error {
	doc, err := w.look(ctx, address)
	if err != nil {
		return err
	}
	if !doc.whole {
		switch w.rootAt(ctx, address) {
		case feedRoot:
			return feed.Check(ctx, w.visitor, address)
		case repositoryRoot:
			return repository.CheckResponseAt(ctx, w.visitor, address)
		}
	}
	up := doc.header.Link(resourcesync.RelUp)
	switch k := doc.kind; {
	case w.visitor.Settings.Single, !doc.whole, k&(finding.KindSitemap|finding.KindUnknown|finding.Manifests|finding.KindNotification) != 0:
		return w.single(ctx, address)
	case k == finding.KindDescription, k == finding.KindDescriptionIndex:
		if doc, err = w.document(ctx, address, nil); err != nil {
			return err
		}
		if k == finding.KindDescription {
			err = w.description(ctx, doc)
		} else {
			err = w.descriptions(ctx, doc)
		}
	case k == finding.KindCapabilityList:
		err = w.fromBelow(ctx, doc)
	case up == "":
		err = w.setOnce(ctx, doc.uri, "", doc.header.Capability)
	default:
		err = w.fromPart(ctx, doc, up)
	}
	if err != nil {
		return err
	}
	return w.robots(ctx)
}

// single checks the document at address, and nothing else.
func (w *walk) single(ctx context.Context, address string) error {
	return w.once(address, func() error {
		return w.alone(ctx, func(each eachFunc) error {
			_, err := w.document(ctx, address, each)
			return err
		})
	})
}

// once calls check, unless it was called for uri before: several addresses of a
// run may lead to a set.
func (w *walk) once(uri string, check func() error) error {
	if w.done[uri] {
		return nil
	}
	err := check()
	w.done[uri] = err == nil
	return err
}

// setOnce is set, unless the set was checked before.
func (w *walk) setOnce(ctx context.Context, uri, description string, c resourcesync.Capability) error {
	return w.once(uri, func() error { return w.set(ctx, uri, description, c) })
}

// fromPart goes up from a document of a set to its Capability List. If that is
// unavailable, it checks only what is below the document.
func (w *walk) fromPart(ctx context.Context, doc *document, up string) error {
	p := w.visitor.Collector.In(doc.uri)
	above, err := w.look(ctx, up)
	switch {
	case errors.Is(err, opener.ErrUnseen):
		w.visitor.Collector.Report.Unseen++
	case visit.IsMissing(err):
		p.Errorf(lacksUp[doc.kind], "", "the link up leads to %s: %v", up, err)
	case err != nil:
		return err
	case above.kind != finding.KindCapabilityList:
		p.Errorf(lacksUp[doc.kind], "", "the link up leads to a %s, not to a Capability List", above.kind)
	default:
		return w.fromBelow(ctx, above)
	}
	return w.setOnce(ctx, doc.uri, "", doc.header.Capability)
}

// fromBelow checks the set of a Capability List, and the documents above it.
func (w *walk) fromBelow(ctx context.Context, list *document) error {
	up := list.header.Link(resourcesync.RelUp)
	description := ""
	if up != "" {
		above, err := w.document(ctx, up, nil)
		p := w.visitor.Collector.In(list.uri)
		switch {
		case errors.Is(err, opener.ErrUnseen):
			w.visitor.Collector.Report.Unseen++
		case visit.IsMissing(err):
			p.Errorf("RS-CL-04", "", "the link up leads to %s: %v", up, err)
		case err != nil:
			return err
		case above.kind&(finding.KindDescription|finding.KindDescriptionIndex) == 0:
			p.Errorf("RS-CL-04", "", "the link up leads to a %s, not to a Source Description", above.kind)
		default:
			description = above.uri
			if above.kind == finding.KindDescription && !names(above, list) {
				p.Errorf("RS-CL-04", "", "the link up leads to %s, which does not name this Capability List", up)
			}
			if err := w.wellKnown(ctx, above); err != nil {
				return err
			}
		}
	}
	return w.setOnce(ctx, list.uri, description, resourcesync.CapabilityList)
}

// names reports whether an entry of d names what.
func names(d, what *document) bool {
	for i := range d.entries {
		if d.entries[i].Loc == what.uri || d.entries[i].Loc == what.final {
			return true
		}
	}
	return false
}

// descriptions checks the entries of an index of Source Descriptions.
func (w *walk) descriptions(ctx context.Context, index *document) error {
	for i := range index.entries {
		e, p := &index.entries[i], w.visitor.Collector.In(index.uri)
		doc, err := w.document(ctx, e.Loc, nil)
		switch {
		case errors.Is(err, opener.ErrUnseen):
			w.visitor.Collector.Report.Unseen++
		case visit.IsMissing(err):
			p.Errorf("RS-IDX-06", index.places[i], "%s: %v", e.Loc, err)
		case err != nil:
			return err
		case doc.kind == finding.KindDescriptionIndex:
			p.Errorf("RS-IDX-04", index.places[i], "%s is an index within an index", e.Loc)
		case doc.kind != finding.KindDescription:
			p.Errorf("RS-IDX-10", index.places[i], "%s is a %s, not a Source Description", e.Loc, doc.kind)
		default:
			w.stale(p, "RS-EM-06", index.places[i], e, doc)
			if err := w.description(ctx, doc); err != nil {
				return err
			}
		}
	}
	return nil
}

// description checks the sets of a Source Description.
func (w *walk) description(ctx context.Context, doc *document) error {
	if err := w.wellKnown(ctx, doc); err != nil {
		return err
	}
	done := make(map[string]bool)
	for i := range doc.entries {
		e, p := &doc.entries[i], w.visitor.Collector.In(doc.uri)
		if done[e.Loc] {
			continue
		}
		done[e.Loc] = true
		list, err := w.look(ctx, e.Loc)
		switch {
		case errors.Is(err, opener.ErrUnseen):
			w.visitor.Collector.Report.Unseen++
			continue
		case visit.IsMissing(err):
			p.Errorf("RS-SD-05", doc.places[i], "%s: %v", e.Loc, err)
			continue
		case err != nil:
			return err
		case list.kind != finding.KindCapabilityList || list.header.Index:
			p.Errorf("RS-SD-05", doc.places[i], "%s is a %s, not a Capability List", e.Loc, list.kind)
			continue
		}
		w.stale(p, "RS-SD-08", doc.places[i], e, list)
		if err := w.setOnce(ctx, e.Loc, doc.uri, resourcesync.CapabilityList); err != nil {
			return err
		}
	}
	return nil
}

// document opens the document at uri and reads it. The caller reports an error
// that IsMissing as a finding of the document that named it.
func (w *walk) document(ctx context.Context, uri string, each eachFunc) (*document, error) {
	if err := w.visitor.Room(uri); err != nil {
		return nil, err
	}
	if w.visitor.Settings.OnDocument != nil {
		w.visitor.Settings.OnDocument(uri)
	}
	a, err := w.visitor.Ask(ctx, opener.Request{URI: uri, Document: true})
	if err != nil {
		return nil, err
	}
	defer a.Body.Close() // read as far as needed
	w.visitor.Collector.Alias(uri, a.URI)
	doc, err := w.read(ctx, visit.SourceOf(uri, a), each)
	if err != nil {
		return nil, w.visitor.Broken(ctx, uri, err)
	}
	w.kinds[uri] = doc.kind
	w.headers(doc, a.Header)
	return doc, nil
}

// look is document without findings, and without entries in the tally.
func (w *walk) look(ctx context.Context, uri string) (*document, error) {
	return w.quiet(uri).document(ctx, uri, nil)
}

// quiet returns a separate walk that discards its findings.
func (w *walk) quiet(uri string) *walk {
	return &walk{visitor: w.visitor.Quiet(), served: map[string]bool{uri: true}, kinds: make(map[string]finding.Kinds)}
}

// headers checks how a document is served.
func (w *walk) headers(doc *document, h http.Header) {
	if h == nil {
		return
	}
	doc.modified, _ = http.ParseTime(h.Get("Last-Modified")) // zero if there is none
	if w.served[doc.uri] {
		return
	}
	if w.secret != nil && isPrivate(h) {
		w.secret[doc.uri] = true
	}
	w.served[doc.uri] = true
	p := w.visitor.Collector.In(doc.uri)
	switch t := visit.BaseType(h.Get("Content-Type")); t {
	case "application/xml", "application/gzip", "application/x-gzip":
	default:
		p.Advisef("RS-DISC-13", "Content-Type", "served as %q, not as application/xml", t)
	}
	validators(p, h)
}

// isPrivate reports whether an answer is for one client (RFC 9111, 5.2.2.7).
func isPrivate(h http.Header) bool {
	for directive := range strings.SplitSeq(strings.Join(h.Values("Cache-Control"), ","), ",") {
		if strings.EqualFold(strings.TrimSpace(directive), "private") {
			return true
		}
	}
	return false
}

// validators checks that an answer supports conditional requests.
func validators(p finding.Place, h http.Header) {
	for _, name := range []string{"ETag", "Last-Modified"} {
		if h.Get(name) == "" {
			p.Warnf("RS-HTTP-01", name, "the answer has no %s", name)
		}
	}
}

// stale checks that the lastmod an entry gives for a document is not older than
// the document.
func (w *walk) stale(p finding.Place, rule, at string, e *resourcesync.Entry, doc *document) {
	if e.Lastmod.IsZero() || doc.modified.IsZero() {
		return
	}
	if mod := e.Lastmod.Time(); mod.Before(doc.modified.Add(-clockTick)) {
		p.Warnf(rule, at, "lastmod %s, but %s was modified at %s", e.Lastmod, e.Loc, resourcesync.NewDatetime(doc.modified))
	}
}

// originOf returns scheme and host of a URI, and its path.
func originOf(uri string) (origin, path string) {
	u, err := url.Parse(uri)
	if err != nil || u.Host == "" {
		return "", ""
	}
	return u.Scheme + "://" + u.Host, u.Path
}
