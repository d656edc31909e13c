package selection

import (
	"slices"
	"sort"
	"strings"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/resourcesync"
)

// IsAlternate reports whether a link leads to another representation of
// the same.
func IsAlternate(l *resourcesync.Link) bool { return l.Rel == "alternate" || l.Rel == "canonical" }

// Preferred returns the link to the representation of w that is preferred to
// the one at its own URI, or nil if there is none: the first of Prefer that one
// of them has the type of decides, the own one before others, then pri, then
// the order of the links (RS-PRI-02).
func (s *Selection) Preferred(w *desired.Resource) *resourcesync.Link {
	for _, glob := range s.prefer {
		if t := content.TypeOnly(w.Type); t != "" && matchAny([]string{glob}, t) {
			return nil
		}
		var best *resourcesync.Link
		for i := range w.Links {
			l := &w.Links[i]
			t := linkType(l)
			if !IsAlternate(l) || l.Href == w.URI || t == "" || !matchAny([]string{glob}, t) {
				continue
			}
			if best == nil || Priority(l) < Priority(best) {
				best = l
			}
		}
		if best != nil {
			return best
		}
	}
	return nil
}

// SortPreferred puts the representations of a record that are preferred to the
// others first: by the first of Prefer that has the type of one, else as they
// were.
func (s *Selection) SortPreferred(all []desired.Resource) {
	if len(s.prefer) == 0 {
		return
	}
	place := func(w desired.Resource) int {
		t := mediaType(&w)
		i := slices.IndexFunc(s.prefer, func(glob string) bool { return t != "" && matchAny([]string{glob}, t) })
		if i < 0 {
			return len(s.prefer)
		}
		return i
	}
	sort.SliceStable(all, func(i, j int) bool { return place(all[i]) < place(all[j]) })
}

// Priority returns pri, or its default if absent (RS-PRI-01).
func Priority(l *resourcesync.Link) int {
	const least = 999_999
	if l.Pri < 1 || l.Pri > least {
		return least
	}
	return l.Pri
}

// linkType is the type a link states, else the one its address looks like.
func linkType(l *resourcesync.Link) string {
	return mediaType(&desired.Resource{URI: l.Href, Type: l.Type})
}

// Prefers reports whether some representations are preferred to others.
func (s *Selection) Prefers() bool { return len(s.prefer) > 0 }

// PrefersOther reports whether the representations that a set was last complete
// with may be others than those preferred now.
func (s *Selection) PrefersOther(key string) bool {
	_, was, _ := strings.Cut(key, "+")
	_, is, _ := strings.Cut(s.Key, "+")
	return key != "" && was != is
}
