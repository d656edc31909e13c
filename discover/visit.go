package discover

import (
	"context"
	"errors"
	"fmt"

	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

const (
	maxSets         = 1000 // of one Source: each costs a request
	maxCapabilities = 100  // of one set
	maxDescriptions = 3    // Source Descriptions within each other
)

// visit continues from the document d (RS-DISC-12): down to the sets from a
// document above them, up from a document within a set. With all, it goes up to
// the Source Description.
func (f *finder) visit(ctx context.Context, d *Document, all bool) error {
	return f.visitAt(ctx, d, all, 0)
}

func (f *finder) visitAt(ctx context.Context, d *Document, all bool, hops int) error {
	h := &d.Header
	switch {
	case h.Capability == resourcesync.Description, h.Capability == resourcesync.CapabilityList && h.Index:
		return f.description(ctx, d, 0)
	case h.Capability == resourcesync.CapabilityList:
		return f.capabilityList(ctx, d, all)
	}
	up, index := h.Link(resourcesync.RelUp), h.Link(resourcesync.RelIndex)
	if up == "" {
		for _, l := range d.links {
			if l.Has(relation) {
				up = l.Target
				break
			}
		}
	}
	for _, next := range []string{up, index} {
		if next == "" {
			continue
		}
		if hops >= maxHops && !f.local {
			return fmt.Errorf("read %s: more than %d links up, none of which leads to a Capability List", fetch.Printable(d.URI), maxHops)
		}
		f.found.step(d.URI, "%s; its link leads up to %s", kind(h), next)
		var circle *circleError
		switch done, err := f.climb(ctx, d, next, all, hops+1); {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && listed(h.Capability) && (f.local || errors.As(err, &circle)):
			f.found.failed(next, err)
		case err != nil:
			return fmt.Errorf("read %s: %s, and the link up from it cannot be followed: %w", fetch.Printable(d.URI), kind(h), err)
		case done:
			return nil
		}
	}
	if !listed(h.Capability) {
		return fmt.Errorf("read %s: %s, from which no list could be reached", fetch.Printable(d.URI), kind(h))
	}
	f.found.alone(d)
	return nil
}

// climb goes from d to next, which should be above it.
func (f *finder) climb(ctx context.Context, d *Document, next string, all bool, hops int) (done bool, err error) {
	above, err := f.openDocument(ctx, next)
	if err != nil {
		return false, err
	}
	defer above.Close()
	h := &above.Header
	switch {
	case h.Capability == resourcesync.CapabilityList && !h.Index:
		before := len(f.found.Sets)
		if err := f.capabilityList(ctx, above, all); err != nil {
			return false, err
		}
		if !f.found.All && len(f.found.Sets) > before {
			f.found.prefer(&f.found.Sets[before], d)
		}
		return true, nil
	case h.Capability == resourcesync.Description, h.Capability == resourcesync.CapabilityList:
		return f.fromAbove(ctx, d, above, all)
	case h.Capability == d.Header.Capability && h.Index: // RS-VER-06
		return true, f.visitAt(ctx, above, all, hops)
	}
	return false, fmt.Errorf("read %s: %s, where a Capability List was expected", fetch.Printable(next), kind(h))
}

// fromAbove adds the sets of a Source Description that a list names as the
// document above it: only the set that contains the list, if there is one.
func (f *finder) fromAbove(ctx context.Context, d, above *Document, all bool) (bool, error) {
	if err := f.description(ctx, above, 0); err != nil {
		return false, err
	}
	if !all {
		for _, s := range f.found.Sets {
			if s.URI(d.Header.Capability) == d.URI {
				f.found.Sets, f.found.All, f.found.Again = []Set{s}, false, false
				return true, nil
			}
		}
	}
	for _, s := range f.found.Sets { // one of them may contain the list
		if s.Err != nil && (!all || !f.found.usable()) {
			return false, s.Err
		}
	}
	if !all && len(f.found.Sets) != 1 {
		f.found.Sets, f.found.All = nil, false
	}
	return f.found.usable(), nil
}

// listed reports whether c is a capability that is usable without a Capability
// List.
func listed(c resourcesync.Capability) bool {
	switch c {
	case "", resourcesync.ResourceList, resourcesync.ResourceDump, resourcesync.ChangeList, resourcesync.ChangeDump:
		return true
	}
	return false
}

// capabilityList adds the set that d describes; with all, also the other sets
// of its Source.
func (f *finder) capabilityList(ctx context.Context, d *Document, all bool) error {
	up := d.Header.Link(resourcesync.RelUp)
	if all && up != "" {
		done, err := f.above(ctx, d, up)
		if done || err != nil {
			return err
		}
	}
	s, err := readSet(d)
	if err != nil {
		return err
	}
	f.found.step(d.URI, "Capability List: %s", s.offers())
	f.found.add(s)
	if f.found.SourceDescription == "" {
		f.found.SourceDescription = up
	}
	return nil
}

// above adds the sets of the Source Description that a Capability List names as
// the document above it, and reports whether there are any. If the Source
// Description does not exist, or a link leads back, only the Capability List is
// used.
func (f *finder) above(ctx context.Context, d *Document, up string) (done bool, err error) {
	above, err := f.openDocument(ctx, up)
	var circle *circleError
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case isAbsent(err), errors.As(err, &circle), err != nil && f.local:
		f.found.failed(up, err)
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read %s: Capability List, and the link up from it cannot be followed: %w", fetch.Printable(d.URI), err)
	}
	defer above.Close()
	switch above.Header.Capability {
	case resourcesync.Description, resourcesync.CapabilityList:
	default:
		err := fmt.Errorf("read %s: %s, where a Source Description was expected", fetch.Printable(up), kind(&above.Header))
		if f.local {
			f.found.failed(up, err)
			return false, nil
		}
		return false, err
	}
	if above.Header.Capability == resourcesync.CapabilityList && !above.Header.Index {
		f.found.step(up, "Capability List, which does not list the sets of a Source")
		return false, nil
	}
	delete(f.seen, d.URI) // the Source Description names it again
	delete(f.seen, d.Final)
	f.found.step(d.URI, "Capability List; its link leads up to %s", up)
	if err := f.description(ctx, above, 0); err != nil {
		return false, err
	}
	for i := range f.found.Sets { // this Capability List was read a moment ago
		if s := &f.found.Sets[i]; s.CapabilityList == d.URI && s.Err != nil {
			return false, nil
		}
	}
	return f.found.announced(), nil
}

// description adds every set that d lists.
func (f *finder) description(ctx context.Context, d *Document, depth int) error {
	locs, err := f.found.locs(d, depth)
	if err != nil {
		return err
	}
	if err := addSets(ctx, f, locs, depth); err != nil {
		return err
	}
	if len(locs) == 0 && depth == 0 {
		return fmt.Errorf("read %s: it lists no set", fetch.Printable(d.URI))
	}
	return nil
}

// locs reads what a Source Description names.
func (f *Found) locs(d *Document, depth int) ([]string, error) {
	locs, err := readLocs(d, maxSets)
	if err != nil {
		return nil, err
	}
	f.step(d.URI, "%s of %d", kind(&d.Header), len(locs))
	if depth == 0 {
		f.SourceDescription, f.Validators, f.All = d.URI, d.Validators, true
	}
	f.Again = f.Again || depth > 0 // documents below it may change without it
	return locs, nil
}

// addSets adds the sets that a Source Description names.
func addSets(ctx context.Context, f *finder, locs []string, depth int) error {
	for i, loc := range locs {
		if f.found.knows(loc) {
			continue // another Source Description of the same index lists it too
		}
		f.ahead(ctx, false, locs[i:min(i+maxAhead, len(locs))]...)
		if err := f.set(ctx, loc, len(locs) == 1 && depth == 0, depth); err != nil {
			if ctx.Err() != nil || errors.Is(err, errPages) {
				return err
			}
			f.found.unread(loc, err)
		}
	}
	return nil
}

// set adds the set or sets at loc, which a Source Description names. Unless it is alone, its
// document has to arrive within setTime.
func (f *finder) set(ctx context.Context, loc string, alone bool, depth int) error {
	var below []string
	more := false
	err := withinSetTime(ctx, loc, alone, func(ctx context.Context) error {
		d, err := f.openDocument(ctx, loc)
		if err != nil {
			return err
		}
		defer d.Close()
		h := &d.Header
		switch {
		case h.Capability == resourcesync.Description, h.Capability == resourcesync.CapabilityList && h.Index:
			if depth+1 >= maxDescriptions {
				return fmt.Errorf("read %s: more than %d Source Descriptions within each other", fetch.Printable(loc), maxDescriptions)
			}
			below, err = f.found.locs(d, depth+1)
			more = err == nil
			return err
		case h.Capability == resourcesync.CapabilityList:
			s, err := readSet(d)
			if err == nil {
				f.found.step(loc, "Capability List: %s", s.offers())
				f.found.add(s)
			}
			return err
		}
		return fmt.Errorf("read %s: %s, where a Capability List was expected", fetch.Printable(loc), kind(h))
	})
	if err != nil || !more {
		return err
	}
	return addSets(ctx, f, below, depth+1)
}

// readLocs returns the locs of d's entries, each once.
func readLocs(d *Document, most int) ([]string, error) {
	var locs []string
	seen := map[string]bool{}
	for e, err := range d.Entries() {
		if err != nil {
			return nil, err
		}
		if seen[e.Loc] {
			continue
		}
		if len(locs) == most {
			return nil, fmt.Errorf("read %s: more than %d entries", fetch.Printable(d.URI), most)
		}
		seen[e.Loc] = true
		locs = append(locs, e.Loc)
	}
	return locs, d.Unlocated()
}

// kind returns the name of a document's kind for people.
func kind(h *resourcesync.Header) string {
	name := map[resourcesync.Capability]string{
		"":                                "plain Sitemap",
		resourcesync.Description:          "Source Description",
		resourcesync.CapabilityList:       "Capability List",
		resourcesync.ResourceList:         "Resource List",
		resourcesync.ResourceDump:         "Resource Dump",
		resourcesync.ResourceDumpManifest: "Resource Dump Manifest",
		resourcesync.ChangeList:           "Change List",
		resourcesync.ChangeDump:           "Change Dump",
		resourcesync.ChangeDumpManifest:   "Change Dump Manifest",
		resourcesync.ResourceListArchive:  "Resource List Archive",
		resourcesync.ResourceDumpArchive:  "Resource Dump Archive",
		resourcesync.ChangeListArchive:    "Change List Archive",
		resourcesync.ChangeDumpArchive:    "Change Dump Archive",
		resourcesync.ChangeNotification:   "Change Notification",
	}[h.Capability]
	if name == "" {
		name = fmt.Sprintf("document of capability %q", fetch.Printable(string(h.Capability)))
	}
	if h.Index {
		name += " Index"
	}
	return name
}
