package representation

import (
	"context"
	"slices"
	"sort"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/selection"
	"lockstep/resourcesync"
)

// A Finder finds the resources of a Source some of which are representations of
// the same record.
type Finder interface {
	// Find returns what there is now at a URI; it reports whether there is anything.
	Find(ctx context.Context, uri string) (resourcesync.Entry, bool, error)
}

// A Chooser says which of the representations of a record is kept: the first
// that is selected, unless another is preferred; if none is selected, the
// record is treated as nonexistent (AP-CDL-07). The result for a URI depends
// only on the current records, not on the order in which they are listed.
type Chooser struct {
	Reader *entries.Reader
	Finder Finder // nil: no resource has others
}

// Settle returns what to do about the resource e, which exists; now says that e
// is its current state.
func (c *Chooser) Settle(ctx context.Context, e *resourcesync.Entry, now bool) (desired.Resource, error) {
	main := entries.CanonicalOf(e)
	if main == "" && !HasAlternates(e) {
		return c.Reader.Resource(e), nil
	}
	if c.Finder == nil || c.Reader.Selects.IsAll() {
		w := c.Reader.Resource(e)
		if main != "" {
			w.Gone, w.Instead = true, main
		}
		return w, nil
	}
	if !now {
		current, there, err := c.Finder.Find(ctx, e.Loc)
		if err != nil || !there {
			return desired.Resource{URI: e.Loc, Gone: true, Length: -1}, err
		}
		current.Change, current.Datetime = e.Change, e.Datetime
		return c.Settle(ctx, &current, true)
	}
	w := c.Reader.Resource(e)
	of := e
	if main != "" {
		first, there, err := c.Finder.Find(ctx, main)
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
	if err != nil || chosen == e.Loc || chosen == "" && !c.Reader.Selects.Selects(&w, false) {
		return w, err
	}
	w.Gone, w.Instead = true, chosen
	return w, nil
}

// choose returns the URI of the representation of a record that is kept, or
// "". The record's first one is main.
func (c *Chooser) choose(ctx context.Context, main *resourcesync.Entry) (string, error) {
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
func (c *Chooser) form(ctx context.Context, main *resourcesync.Entry, uri string) (resourcesync.Entry, bool, error) {
	if uri == main.Loc {
		return *main, true, nil
	}
	e, there, err := c.Finder.Find(ctx, uri)
	return e, there && entries.CanonicalOf(&e) == main.Loc, err // else it is one of another record
}

// forms returns the representations of a record that are selected, as its first one
// names them, best first.
func (c *Chooser) forms(main *resourcesync.Entry) []desired.Resource {
	sel := c.Reader.Selects
	own := desired.Resource{URI: main.Loc, Type: main.Type, Lastmod: main.Lastmod, Length: -1}
	if main.HasLength {
		own.Length = main.Length
	}
	var fit []desired.Resource
	if sel.Selects(&own, false) {
		fit = append(fit, own)
	}
	links := slices.DeleteFunc(slices.Clone(main.Links), func(l resourcesync.Link) bool { return l.Rel != "alternate" || l.Href == main.Loc })
	sort.SliceStable(links, func(i, j int) bool { return selection.Priority(&links[i]) < selection.Priority(&links[j]) })
	for i := range links {
		w := desired.Resource{URI: links[i].Href, Type: links[i].Type, Lastmod: main.Lastmod, Length: -1}
		if links[i].HasLength {
			w.Length = links[i].Length
		}
		if sel.Selects(&w, false) && c.Reader.Refuse(w.URI) == "" {
			fit = append(fit, w)
		}
	}
	sel.SortPreferred(fit)
	return fit
}

// Relatives returns the other resources of the record that e, which is there
// now or was, is one of, where e may decide about them.
func (c *Chooser) Relatives(ctx context.Context, e *resourcesync.Entry) (all []resourcesync.Entry, err error) {
	if c.Finder == nil || c.Reader.Selects.IsAll() {
		return nil, nil
	}
	return c.family(ctx, e)
}

// family returns the other resources of the record that e is one of.
func (c *Chooser) family(ctx context.Context, e *resourcesync.Entry) (all []resourcesync.Entry, err error) {
	main := e
	if uri := entries.CanonicalOf(e); uri != "" {
		first, there, err := c.Finder.Find(ctx, uri)
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
		other, there, err := c.Finder.Find(ctx, l.Href)
		if err != nil {
			return nil, err
		}
		if there {
			all = append(all, other)
		}
	}
	return all, nil
}

// HasAlternates reports whether an entry names other representations of its record.
func HasAlternates(e *resourcesync.Entry) bool {
	return slices.ContainsFunc(e.Links, func(l resourcesync.Link) bool { return l.Rel == "alternate" && l.Href != e.Loc })
}

func leadsTo(e *resourcesync.Entry, uri string) bool {
	return slices.ContainsFunc(e.Links, func(l resourcesync.Link) bool { return l.Rel == "alternate" && l.Href == uri })
}
