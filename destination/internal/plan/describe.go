package plan

import (
	"slices"

	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// maxOthers is how many sets that say other things of a resource than the first of its
// sets are remembered: a Source may have any number of sets. What those beyond say
// is known again when their lists are read.
const maxOthers = 16

// Describe makes h, the row for a in a set, say what the Source states of the
// resource. Of a resource of several sets the first one decides on the media type,
// the links and the foreign markup: sets may state different ones, and the row would
// alternate. What the others say is kept for the time when it leaves the first. A
// statement without a media type leaves the one that was stated before.
func Describe(h *journal.Held, a *Action, set int) {
	if a.Undescribed {
		h.Type, h.Links, h.Stated = a.Held.Type, a.Held.Links, a.Held.Stated
		return
	}
	s := stated(a)
	if n := a.Held.Sets; a.Held.Stated == nil || len(n) == 0 || len(n) == 1 && n[0] == set { // as nearly always
		h.Type, h.Links, h.Stated = typeOf(a), linksOf(a), &s
		return
	}
	describe(h, &s, said(a, set))
}

// Withdraw makes h, the row for a, say what the sets other than one state of the
// resource, which leaves that set.
func Withdraw(h *journal.Held, a *Action, set int) {
	if a.Held.Stated == nil || len(h.Sets) == 0 {
		return
	}
	s := *a.Held.Stated
	all := slices.DeleteFunc(descriptions(&a.Held), func(d journal.Description) bool { return d.Set == set })
	describe(h, &s, all)
}

// Redescribes reports whether it is a change of the resource of a that it leaves a set.
func Redescribes(a *Action, set int) bool {
	h := a.Held
	h.Sets = WithoutSet(h.Sets, set)
	Withdraw(&h, a, set)
	return journal.Redescribes(&a.Held, &h)
}

// describe makes h say what sets state of a resource besides its content, which s says.
func describe(h *journal.Held, s *journal.Stated, all []journal.Description) {
	first := &all[0]
	h.Type, h.Links, s.Foreign, s.Others = first.Type, first.Links, first.Foreign, nil
	for i := range all[1:] {
		if o := &all[1+i]; !journal.SameDescription(o, first) && len(s.Others) < maxOthers {
			s.Others = append(s.Others, *o)
		}
	}
	h.Stated = s
}

// descriptions returns what each set of a row states of the resource, by number: what is
// not recorded of a set is what the first one states.
func descriptions(h *journal.Held) []journal.Description {
	all := make([]journal.Description, len(h.Sets), len(h.Sets)+1)
	for i, n := range h.Sets {
		all[i] = journal.Description{Set: n, Type: h.Type, Links: h.Links, Foreign: h.Stated.Foreign}
		for _, o := range h.Stated.Others {
			if o.Set == n {
				all[i] = o
			}
		}
	}
	return all
}

// said returns what each set states of the resource of a, now that one states it.
func said(a *Action, set int) []journal.Description {
	all := descriptions(&a.Held)
	i, found := slices.BinarySearchFunc(all, set, func(d journal.Description, n int) int { return d.Set - n })
	is := journal.Description{Set: set, Type: typeOf(a), Links: linksOf(a), Foreign: a.AsStated().Foreign}
	if !found {
		return slices.Insert(all, i, is)
	}
	if a.Type == "" && !a.Preferred {
		is.Type = all[i].Type
	}
	all[i] = is
	return all
}

// Restates reports whether the Source states something of a resource that its row
// does not say, and whether that is a change of the resource: see
// [journal.Redescribes].
func Restates(a *Action, set int) (restated, changed bool) {
	if a.Undescribed {
		return false, false
	}
	h := a.Held
	Describe(&h, a, set)
	switch {
	case a.Held.Stated != nil && !slices.EqualFunc(a.Held.Stated.Others, h.Stated.Others, sameOther):
	case isOfEarlierSet(a, set), journal.SameStatement(&a.Held, &h):
		return false, false
	}
	return true, journal.Redescribes(&a.Held, &h)
}

func sameOther(a, b journal.Description) bool {
	return a.Set == b.Set && journal.SameDescription(&a, &b)
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
