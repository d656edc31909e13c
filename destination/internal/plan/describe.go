package plan

import (
	"slices"

	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// Describe makes h, the row for a in a set, say what the Source states of the
// resource. Of a resource of several sets the first one decides on the media type,
// the links and the foreign markup: sets may state different ones, and the row would alternate. A
// statement without a media type leaves the one that was stated before.
func Describe(h *journal.Held, a *Action, set int) {
	if a.Undescribed {
		h.Type, h.Links, h.Stated = a.Held.Type, a.Held.Links, a.Held.Stated
		return
	}
	s := stated(a)
	h.Stated = &s
	if isOfEarlierSet(a, set) {
		h.Type, h.Links, s.Foreign = a.Held.Type, a.Held.Links, a.Held.Stated.Foreign
		return
	}
	h.Type, h.Links = typeOf(a), linksOf(a)
}

// Restates reports whether the Source states something of a resource that its row
// does not say, and whether that is a change of the resource: see
// [journal.Redescribes].
func Restates(a *Action, set int) (restated, changed bool) {
	if a.Undescribed || isOfEarlierSet(a, set) {
		return false, false
	}
	h, s := a.Held, stated(a)
	h.Type, h.Links, h.Stated = typeOf(a), linksOf(a), &s
	if journal.SameStatement(&a.Held, &h) {
		return false, false
	}
	return true, journal.Redescribes(&a.Held, &h)
}

// isOfEarlierSet reports whether a set with a lower number describes the resource.
func isOfEarlierSet(a *Action, set int) bool {
	return a.Held.Stated != nil && len(a.Held.Sets) > 0 && a.Held.Sets[0] < set
}

func stated(a *Action) journal.Stated {
	return journal.Stated{Lastmod: a.Lastmod, Length: a.Length, Hashes: a.Hashes, Encoding: a.Coding, Foreign: a.AsStated().Foreign}
}

func typeOf(a *Action) string {
	if a.Type == "" && !a.Preferred {
		return a.Held.Type
	}
	return a.Type
}

// linksOf returns the links that the row of a has.
func linksOf(a *Action) []resourcesync.Link {
	links := a.Links
	if a.Stated != nil {
		links = a.Stated.Links
	}
	isDropped := func(l resourcesync.Link) bool { return !journal.KeepsLink(l.Rel) }
	if !slices.ContainsFunc(links, isDropped) {
		return links
	}
	return slices.DeleteFunc(slices.Clone(links), isDropped)
}
