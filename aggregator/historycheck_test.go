package aggregator_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"lockstep/aggregator"
	"lockstep/catalog"
	"lockstep/destination"
	"lockstep/destination/filename"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// quiet checks that nothing changes any more.
func (h *history) quiet(ctx context.Context) {
	for _, n := range h.nodes {
		if len(n.feeds) == 0 {
			continue
		}
		if r, err := n.scan(ctx); err != nil || r.Changed() {
			h.Fatalf("%s changes though nothing has changed: %+v, %v", n, r, err)
		}
	}
}

// same compares the mirror with the last Aggregator, and all resources of both with the
// origins.
func (h *history) same(ctx context.Context) {
	records := h.last.from.records(ctx)
	n := 0
	for row, err := range h.last.journal.Held(ctx, "", "") {
		h.Must(err)
		n++
		f, err := h.last.store.Open(ctx, row.Path)
		h.Must(err)
		text, err := io.ReadAll(io.NewSectionReader(f, 0, f.Info().Size))
		h.Must(errors.Join(err, f.Close()))
		r, ok := records[row.URI]
		if !ok {
			h.Fatalf("the mirror has %s, %s does not", row.URI, h.last.from)
		}
		if want := h.original(&r); want != string(text) {
			h.Fatalf("%s is %q, the origin has %q", row.URI, text, want)
		}
	}
	if n != len(records) {
		h.Fatalf("the mirror has %d resources, %s has %d", n, h.last.from, len(records))
	}
}

// original returns what the origin of a resource has.
func (h *history) original(r *catalog.Record) string {
	origin := r.URI // where only descriptions are republished
	if via := aggregator.Origin(r.Links); via != nil {
		origin = via.Href
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	text, ok := h.now[origin]
	if !ok {
		h.Fatalf("%s is a copy of %s, which does not exist", r.URI, origin)
	}
	return text
}

// records returns the records of a node by URI.
func (n *node) records(ctx context.Context) map[string]catalog.Record {
	out, err := n.read(ctx)
	n.h.Must(err)
	return out
}

func (n *node) read(ctx context.Context) (map[string]catalog.Record, error) {
	n.disk.RLock()
	defer n.disk.RUnlock()
	out := make(map[string]catalog.Record)
	for r, err := range n.catalog.Resources(ctx, n.set, catalog.Range{}) {
		if err != nil {
			return nil, err
		}
		out[r.URI] = r
	}
	return out, nil
}

// has reports whether a node has a resource with a text.
func (n *node) has(ctx context.Context, text string) bool {
	hashes := hashesOf(text)
	records, _ := n.read(ctx) // it may just be started again
	for _, r := range records {
		if slices.Equal(r.Hashes, hashes) {
			return true
		}
	}
	return false
}

// check compares what a node publishes with what those publish that it follows, and with
// the origins.
func (n *node) check(ctx context.Context) {
	if len(n.feeds) == 0 {
		return
	}
	want := make(map[string]string)
	for _, f := range slices.Backward(n.feeds) {
		theirs := f.from.records(ctx)
		maps.DeleteFunc(theirs, func(_ string, r catalog.Record) bool { return f.selects && r.Type != "text/plain" || n.isLoop(&r) })
		own := n.namesOf(ctx, f)
		for uri, r := range theirs {
			want[own(uri)] = describe(&r, n.links(f, &r, theirs, own))
		}
	}
	records := n.records(ctx)
	for _, uri := range slices.Sorted(maps.Keys(want)) {
		r := records[uri]
		if got := describe(&r, r.Links); got != want[uri] {
			n.h.Fatalf("%s: %s is\n%s\nwant\n%s", n, uri, got, want[uri])
		}
	}
	for uri, r := range records {
		if want[uri] == "" {
			n.h.Fatalf("%s has %s, which no upstream has", n, uri)
		}
		text := n.h.original(&r)
		if !slices.Equal(r.Hashes, hashesOf(text)) {
			n.h.Fatalf("%s: %s is not %q", n, uri, text)
		}
		if n.inPlace {
			continue
		}
		f, err := n.bitstream(ctx, &r)
		n.h.Must(err)
		got, err := io.ReadAll(f)
		n.h.Must(errors.Join(err, f.Close()))
		if string(got) != text {
			n.h.Fatalf("%s: %s is %q, want %q", n, uri, got, text)
		}
	}
}

// isLoop reports whether a resource of an upstream comes from the node itself.
func (n *node) isLoop(r *catalog.Record) bool {
	return strings.HasPrefix(r.URI, n.base) ||
		slices.ContainsFunc(r.Links, func(l resourcesync.Link) bool {
			return (l.Rel == "via" || l.Rel == journal.RelHop) && strings.HasPrefix(l.Href, n.base)
		})
}

// namesOf returns the function that names the resources of an upstream here.
func (n *node) namesOf(ctx context.Context, f *feed) func(uri string) string {
	if n.inPlace {
		return func(uri string) string { return uri }
	}
	var paths *filename.Mapping
	paths, err := destination.Names(ctx, f.journal)
	n.h.Must(err)
	return func(uri string) string {
		if rest, ok := strings.CutPrefix(uri, f.from.base); ok && !f.moved && !strings.Contains(rest, "_other/") && !strings.Contains(rest, "%25~") { // no resource of another host, here or before
			return n.base + f.prefix() + rest
		}
		path, err := paths.Path(uri)
		n.h.Must(err)
		return n.base + f.prefix() + escape(path)
	}
}

// links returns the links with which a node has to republish a resource of a Source that
// it follows.
func (n *node) links(f *feed, r *catalog.Record, theirs map[string]catalog.Record, own func(string) string) []resourcesync.Link {
	var via, others []resourcesync.Link
	for _, l := range r.Links {
		switch l.Rel {
		case "via":
			via = append(via, l)
		case journal.RelHop, "profile":
			others = append(others, l)
		case "describedby", "collection":
			if _, ok := theirs[l.Href]; ok || n.inPlace {
				others = append(others, link(l.Rel, own(l.Href)))
			}
		}
	}
	switch {
	case n.inPlace:
		others = append(others, link(journal.RelHop, n.base))
	case len(via) > 0 && !f.chain:
		for _, l := range via[1:] {
			others = append(others, link(journal.RelHop, l.Href))
		}
		via = via[:1]
		others = append(others, link(journal.RelHop, r.URI))
	default:
		via = append(via, resourcesync.Link{
			Rel: "via", Href: r.URI, Modified: resourcesync.NewDatetime(r.Lastmod), Hashes: r.Hashes, Length: r.Length, HasLength: true, Type: r.Type,
		})
	}
	if f.collection != "" {
		others = append(others, link("collection", f.collection))
	}
	slices.SortFunc(others, func(a, b resourcesync.Link) int { return cmp.Compare(a.Rel+" "+a.Href, b.Rel+" "+b.Href) })
	return append(via, others...)
}

// describe returns all that a record says but times and addresses of its own, with its
// links other than via in any order.
func describe(r *catalog.Record, links []resourcesync.Link) string {
	var via, others []string
	for i := range links {
		l := &links[i]
		line := fmt.Sprintf("%s %s %s %s %x %d %v", l.Rel, l.Href, l.Type, l.Modified, l.Hashes, l.Length, l.HasLength)
		if l.Rel == "via" {
			via = append(via, line)
		} else {
			others = append(others, line)
		}
	}
	slices.Sort(others)
	return fmt.Sprintf("%x %d %s\n", r.Hashes, r.Length, r.Type) + strings.Join(append(via, others...), "\n")
}
