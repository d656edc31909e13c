package source

import (
	"slices"

	"lockstep/source/internal/description"
	"lockstep/source/internal/names"
	"lockstep/source/internal/page"
)

// newDescription returns the documents that lead to all others.
func (s *Source) newDescription() *description.Documents {
	o := description.Options{Docs: s.docs, Description: s.opts.Description, RelDemand: RelDemand, Grace: s.opts.Grace, Hint: s.hint}
	for _, h := range s.opts.Hubs {
		o.Hubs = append(o.Hubs, h.URL)
	}
	if s.opts.Streams > 0 {
		o.RelEvents = RelEvents
	}
	var sets []description.Set
	for i := range s.opts.Sets {
		set := &s.opts.Sets[i]
		sets = append(sets, description.Set{
			Name: set.Name, Description: set.Description, Demand: s.opts.OnDemand != nil && set.Bitstream != nil, Feed: set.Atom != nil, Archive: set.Archive.has, Private: set.Private,
		})
	}
	return description.New(o, sets)
}

// hint returns the page that is beside the documents, for people and for
// programs that look at HTML: it links to the Capability Lists of the sets that
// cover it (RS-DISC-03). It says nothing that changes with the resources.
func (s *Source) hint(sets []string) ([]byte, error) {
	pages := s.newPages()
	var shown []page.Set
	for _, set := range pages.Sets {
		if slices.Contains(sets, set.Name) {
			shown = append(shown, set)
		}
	}
	return pages.Hint(shown, names.Hint)
}
