package destination

import (
	"context"
	"slices"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/selection"
	"lockstep/resourcesync"
)

// A Finder is an Origin some of whose resources are representations of the same
// record, each at a URI of its own: the first has rel="alternate" links to the
// others, these a rel="canonical" link to the first (RS-REL-21). Of each record
// one is kept.
type Finder interface {
	// Find returns what there is now at a URI; it reports whether there is anything.
	// It may be called by several goroutines, also while Entries or Changes are read.
	Find(ctx context.Context, uri string) (resourcesync.Entry, bool, error)
}

// A chooser says which of the representations of a record is kept: the first
// that is selected, unless another is preferred; if none is selected, the
// record is treated as nonexistent (AP-CDL-07). The result for a URI depends
// only on the current records, not on the order in which they are listed.
type chooser struct {
	reader *entries.Reader
	finder Finder // nil: no resource has others
}

// settle returns what to do about the resource e, which exists; now says that e
// is its current state.
func (c *chooser) settle(ctx context.Context, e *resourcesync.Entry, now bool) (desired.Resource, error) {
	main := entries.CanonicalOf(e)
	if main == "" && !hasAlternates(e) {
		return c.reader.Resource(e), nil
	}
	if c.finder == nil || c.reader.Selects.IsAll() {
		w := c.reader.Resource(e)
		if main != "" {
			w.Gone, w.Instead = true, main
		}
		return w, nil
	}
	if !now {
		current, there, err := c.finder.Find(ctx, e.Loc)
		if err != nil || !there {
			return desired.Resource{URI: e.Loc, Gone: true, Length: -1}, err
		}
		current.Change, current.Datetime = e.Change, e.Datetime
		return c.settle(ctx, &current, true)
	}
	w := c.reader.Resource(e)
	of := e
	if main != "" {
		first, there, err := c.finder.Find(ctx, main)
		if err != nil {
			return w, err
		}
		if !there || entries.CanonicalOf(&first) != "" || !leadsTo(&first, e.Loc) {
			w.Gone = true // of nothing there is
			return w, nil
		}
		of = &first
	}
	chosen, err := c.choose(ctx, of)
	if err != nil || chosen == e.Loc || chosen == "" && !c.reader.Selects.Selects(&w, false) {
		return w, err
	}
	w.Gone, w.Instead = true, chosen
	return w, nil
}

// choose returns the URI of the representation of a record that is kept, or
// "". The record's first one is main.
func (c *chooser) choose(ctx context.Context, main *resourcesync.Entry) (string, error) {
	fit := c.forms(main)
	for i := range fit {
		e, there, err := c.form(ctx, main, fit[i].URI)
		if err != nil {
			return "", err
		}
		if there {
			return e.Loc, nil
		}
	}
	return "", nil
}

// form returns the representation at uri of the record whose first one is main, and
// whether it is one.
func (c *chooser) form(ctx context.Context, main *resourcesync.Entry, uri string) (resourcesync.Entry, bool, error) {
	if uri == main.Loc {
		return *main, true, nil
	}
	e, there, err := c.finder.Find(ctx, uri)
	return e, there && entries.CanonicalOf(&e) == main.Loc, err // else it is one of another record
}

// forms returns the representations of a record that are selected, as its first one
// names them, best first.
func (c *chooser) forms(main *resourcesync.Entry) []desired.Resource {
	sel := c.reader.Selects
	own := desired.Resource{URI: main.Loc, Type: main.Type, Lastmod: main.Lastmod}
	var fit []desired.Resource
	if sel.Selects(&own, false) {
		fit = append(fit, own)
	}
	links := slices.DeleteFunc(slices.Clone(main.Links), func(l resourcesync.Link) bool { return l.Rel != "alternate" || l.Href == main.Loc })
	slices.SortStableFunc(links, func(a, b resourcesync.Link) int { return selection.Priority(&a) - selection.Priority(&b) })
	for i := range links {
		w := desired.Resource{URI: links[i].Href, Type: links[i].Type, Lastmod: main.Lastmod}
		if sel.Selects(&w, false) && c.reader.Refuse(w.URI) == "" {
			fit = append(fit, w)
		}
	}
	sel.SortPreferred(fit)
	return fit
}

// relatives returns the other resources of the record that e, which is there
// now or was, is one of, where e may decide about them.
func (c *chooser) relatives(ctx context.Context, e *resourcesync.Entry) (all []resourcesync.Entry, err error) {
	if c.finder == nil || c.reader.Selects.IsAll() {
		return nil, nil
	}
	return c.family(ctx, e)
}

// family returns the other resources of the record that e is one of.
func (c *chooser) family(ctx context.Context, e *resourcesync.Entry) (all []resourcesync.Entry, err error) {
	main := e
	if uri := entries.CanonicalOf(e); uri != "" {
		first, there, err := c.finder.Find(ctx, uri)
		if err != nil || !there {
			return nil, err
		}
		main, all = &first, append(all, first)
	}
	for i := range main.Links[:min(len(main.Links), entries.MaxLinks)] {
		l := &main.Links[i]
		if l.Rel != "alternate" || l.Href == e.Loc || l.Href == main.Loc {
			continue
		}
		other, there, err := c.finder.Find(ctx, l.Href)
		if err != nil {
			return nil, err
		}
		if there {
			all = append(all, other)
		}
	}
	return all, nil
}

func hasAlternates(e *resourcesync.Entry) bool {
	return slices.ContainsFunc(e.Links, func(l resourcesync.Link) bool { return l.Rel == "alternate" && l.Href != e.Loc })
}

func leadsTo(e *resourcesync.Entry, uri string) bool {
	return slices.ContainsFunc(e.Links, func(l resourcesync.Link) bool { return l.Rel == "alternate" && l.Href == uri })
}
