package aggregator

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"lockstep/catalog"
	"lockstep/destination"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// The relations of links that are kept.
const (
	relVia        = "via"
	relDescribes  = "describes"
	relCollection = "collection"
	relProfile    = "profile"
)

// Reasons why a resource is not republished.
var (
	// ErrLoop reports a resource that comes from this Source itself.
	ErrLoop = errors.New("it is a copy of a resource of this Source")

	// ErrReserved reports a resource whose own URI is that of a document, or of a
	// resource of another set.
	ErrReserved = errors.New("at its address here there are documents, or another set, of this Source")

	// ErrPlace reports a resource whose file a web server would not find.
	ErrPlace = errors.New("its file in the mirror has another name than its address here, so that a web server does not find it; lockstep serve does")

	// ErrChain reports a resource that has been republished too often.
	ErrChain = errors.New("it has passed too many Sources")
)

// A translator makes records of the rows of a Journal.
type translator struct {
	*Options
	journal journal.Journal

	hasTargets atomic.Bool // resources have had links to others
}

// A translated is the result of translating a row.
type translated struct {
	catalog.Record // without Lastmod, which is the time at which it changed here

	missing []string // where links lead that were dropped: to resources that the mirror does not have
	kept    bool     // nothing can be said of the resource now: its record stays as it is
	refused error    // the resource is not republished
}

// names returns the function that names the resources of the mirror as it is now.
func (t *translator) names(ctx context.Context) (*names, error) {
	if t.InPlace {
		return &names{}, nil
	}
	paths, err := destination.Names(ctx, t.journal)
	return &names{prefix: t.URI, paths: paths}, err
}

// all translates rows. A row without URI is no resource and has the zero result.
func (t *translator) all(ctx context.Context, rows []journal.Held) ([]translated, error) {
	names, err := t.names(ctx)
	if err != nil {
		return nil, err
	}
	targets, err := t.targets(ctx, rows, names)
	if err != nil {
		return nil, err
	}
	out := make([]translated, len(rows))
	for i := range rows {
		if rows[i].URI != "" {
			out[i] = t.one(&rows[i], names, targets)
		}
	}
	return out, nil
}

// targets returns the own URIs of the resources that links of rows lead to, by their
// URIs at the upstream, as far as they are republished.
func (t *translator) targets(ctx context.Context, rows []journal.Held, names *names) (map[string]string, error) {
	var uris []string
	for i := range rows {
		uris = append(uris, related(&rows[i])...)
	}
	if len(uris) == 0 || t.InPlace {
		return nil, nil
	}
	slices.Sort(uris)
	found, err := t.journal.Lookup(ctx, slices.Compact(uris))
	if err != nil {
		return nil, err
	}
	own := make(map[string]string, len(found))
	for i := range found {
		if h := &found[i]; h.URI != "" {
			t.hasTargets.Store(true)
			if uri, path, err := names.own(h.URI); err == nil && t.refuse(h, uri, path) == nil {
				own[h.URI] = uri
			}
		}
	}
	return own, nil
}

// related returns the URIs of the resources that a row has links to.
func related(h *journal.Held) (uris []string) {
	for _, l := range h.Links {
		if isRelation(l.Rel) {
			uris = append(uris, l.Href)
		}
	}
	return uris
}

// isRelation reports whether a link leads to another resource of the upstream.
func isRelation(rel string) bool {
	return rel == resourcesync.RelDescribedBy || rel == relDescribes || rel == relCollection
}

// one translates a row.
func (t *translator) one(r *journal.Held, names *names, targets map[string]string) translated {
	own, path, err := names.own(r.URI)
	out := translated{Record: catalog.Record{URI: own, Length: r.Length, Type: r.Type, Hashes: r.Hashes}, refused: err}
	if err != nil {
		return out
	}
	if out.refused = t.refuse(r, own, path); out.refused != nil {
		return out
	}
	if len(r.Hashes) == 0 && !(t.InPlace && r.Stated != nil) { // it is to be fetched again
		out.kept = true
		return out
	}
	if r.Stated != nil {
		out.Foreign = r.Stated.Foreign
	}
	out.Links, out.refused = t.links(r, targets)
	if !t.InPlace {
		for _, uri := range related(r) {
			if _, ok := targets[uri]; !ok {
				out.missing = append(out.missing, uri)
			}
		}
	}
	out.Token = t.token(&out.Record, r.URI)
	return out
}

// refuse returns why a resource is not republished at its own URI, or nil.
func (t *translator) refuse(r *journal.Held, own, path string) error {
	if t.Static && !t.InPlace && path != r.Path {
		return fmt.Errorf("%w: %s", ErrPlace, r.Path)
	}
	if rel, ok := strings.CutPrefix(own, t.BaseURL); ok && t.Reserved != nil && !t.InPlace && t.Reserved(rel) {
		return ErrReserved
	}
	return t.loop(r)
}

// loop returns an error if the resource comes from this Source.
func (t *translator) loop(r *journal.Held) error {
	if isHere(r.URI, t.BaseURL) {
		return ErrLoop
	}
	for i := range r.Links {
		if l := &r.Links[i]; (l.Rel == relVia || l.Rel == journal.RelHop) && isHere(l.Href, t.BaseURL) {
			return fmt.Errorf("%w: via %.200q", ErrLoop, l.Href)
		}
	}
	return nil
}

// links returns the links of a republished resource (RS-REL-74): those that are still
// true here.
func (t *translator) links(r *journal.Held, targets map[string]string) ([]resourcesync.Link, error) {
	links, err := t.via(r)
	if err != nil {
		return nil, err
	}
	for _, l := range r.Links {
		switch {
		case l.Rel == relProfile, l.Rel == journal.RelHop:
		case !isRelation(l.Rel):
			continue
		case !t.InPlace:
			own, ok := targets[l.Href]
			if !ok {
				continue
			}
			l = resourcesync.Link{Rel: l.Rel, Href: own, Type: l.Type, Encoding: l.Encoding, Length: l.Length, HasLength: l.HasLength, Hashes: l.Hashes, Foreign: l.Foreign}
		}
		links = append(links, l)
	}
	if t.Collection != "" {
		links = append(links, resourcesync.Link{Rel: relCollection, Href: t.Collection})
	}
	return links, nil
}

// via returns the via links of a republished resource.
func (t *translator) via(r *journal.Held) ([]resourcesync.Link, error) {
	var stated []resourcesync.Link
	for _, l := range r.Links {
		if l.Rel == relVia {
			stated = append(stated, l)
		}
	}
	if t.InPlace { // it is not at another address than before
		return append(stated, resourcesync.Link{Rel: journal.RelHop, Href: t.BaseURL}), nil
	}
	if hops := countHops(r.Links); hops >= maxChain {
		return nil, fmt.Errorf("%w: %d", ErrChain, hops)
	}
	if len(stated) > 0 && !t.Chain { // RS-REL-71
		origin := Origin(stated)
		links := []resourcesync.Link{*origin}
		for i := range stated { // others than the origin are recognized by links of their own from now on
			if l := &stated[i]; l != origin {
				links = append(links, resourcesync.Link{Rel: journal.RelHop, Href: l.Href})
			}
		}
		return append(links, resourcesync.Link{Rel: journal.RelHop, Href: r.URI}), nil
	}
	own := resourcesync.Link{Rel: relVia, Href: r.URI, Type: r.Type} // RS-REL-70
	if s := r.Stated; s != nil {
		own.Modified, own.Hashes, own.Length, own.HasLength = s.Lastmod, s.Hashes, max(s.Length, 0), s.Length >= 0
	} else { // recorded by an earlier version; the content was verified
		own.Modified, own.Hashes, own.Length, own.HasLength = resourcesync.NewDatetime(r.Lastmod), r.Hashes, r.Length, true
	}
	return append(stated, own), nil
}

// maxChain is how many Sources a resource may have passed before it is republished: a loop
// that is not recognized ends there.
const maxChain = 32

// countHops returns how many Sources a resource has passed.
func countHops(links []resourcesync.Link) (n int) {
	for i := range links {
		if rel := links[i].Rel; rel == relVia || rel == journal.RelHop {
			n++
		}
	}
	return n
}

// Origin returns the via link among links that leads to the origin, or nil. RS-REL-72:
// of several it is the first; but if a later one was modified before it, that one.
func Origin(links []resourcesync.Link) *resourcesync.Link {
	var origin *resourcesync.Link
	for i := range links {
		l := &links[i]
		if l.Rel != relVia {
			continue
		}
		if origin == nil || !l.Modified.IsZero() && !origin.Modified.IsZero() && l.Modified.Compare(origin.Modified) < 0 {
			origin = l
		}
	}
	return origin
}

// token returns the Token of a record: the name of the upstream, a fingerprint of the
// record, and the URI of the resource at the upstream.
func (t *translator) token(r *catalog.Record, uri string) string {
	sum := sha256.Sum256(appendRecord(nil, r))
	return t.Name + " " + base64.RawURLEncoding.EncodeToString(sum[:12]) + " " + uri
}

// parseToken returns what a Token says; ok is false if it is that of another origin.
func parseToken(token string) (name, uri string, ok bool) {
	name, rest, _ := strings.Cut(token, " ")
	_, uri, ok = strings.Cut(rest, " ")
	return name, uri, ok
}

// appendRecord appends all of a record that can be different to b.
func appendRecord(b []byte, r *catalog.Record) []byte {
	b = appendText(b, r.Type, r.Encoding)
	b = binary.AppendVarint(b, r.Length)
	b = appendHashes(b, r.Hashes)
	for i := range r.Links {
		l := &r.Links[i]
		b = appendText(b, l.Rel, l.Href, l.Type, l.Encoding, l.Modified.String())
		b = binary.AppendVarint(b, int64(l.Pri))
		if l.HasLength {
			b = binary.AppendVarint(b, l.Length)
		}
		b = appendHashes(b, l.Hashes)
		if !l.Foreign.IsZero() {
			b = appendText(b, l.Foreign.String())
		}
	}
	if !r.Foreign.IsZero() {
		b = appendText(b, r.Foreign.String())
	}
	return b
}

func appendText(b []byte, texts ...string) []byte {
	for _, s := range texts {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	return b
}

func appendHashes(b []byte, hs resourcesync.Hashes) []byte {
	b = binary.AppendUvarint(b, uint64(len(hs)))
	for _, h := range hs {
		b = appendText(append(b, byte(h.Algorithm)), h.Digest)
	}
	return b
}
