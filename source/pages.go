package source

import (
	"strconv"
	"time"

	"lockstep/memento"
	"lockstep/resourcesync"
	"lockstep/source/internal/document"
	"lockstep/source/internal/names"
	"lockstep/source/internal/page"
)

// archivesOf are the documents that archives name, as a page calls them.
var archivesOf = map[resourcesync.Capability]string{
	resourcesync.ResourceList: "Resource Lists",
	resourcesync.ResourceDump: "Resource Dumps",
	resourcesync.ChangeList:   "Change Lists",
	resourcesync.ChangeDump:   "Change Dumps",
}

// A summary is what the last Publish found, by set.
type summary map[string]page.Published

// summarize keeps for the home page what was published. The caller holds
// publishing.
func (s *Source) summarize() {
	all := make(summary)
	for name, st := range s.lists.Summaries() {
		p := page.Published{Known: true, Count: st.Resources, Last: st.Changed, Resources: strconv.FormatInt(st.Resources, 10) + " resources", At: st.At.Format(time.RFC3339)}
		if st.Resources == 1 {
			p.Resources = "1 resource"
		}
		if !st.Changed.IsZero() {
			p.Changed = st.Changed.Format(time.RFC3339)
		}
		all[name] = p
	}
	for name, held := range s.held {
		if held {
			all[name] = page.Published{Held: true}
		}
	}
	s.page.Store(&all)
}

// newPages returns the pages about the sets.
func (s *Source) newPages() *page.Pages {
	return &page.Pages{
		Home: s.docs.Base.URI(names.Home), Description: s.docs.Base.URI(names.WellKnown), Sets: pageSets(s.docs, s.opts.Sets), Published: s.published,
		Title: s.opts.Title, Summary: s.opts.Summary, Explore: s.opts.Explore,
	}
}

// pageSets returns what pages say of the sets.
func pageSets(docs *document.Store, sets []Set) []page.Set {
	base := docs.Base
	var all []page.Set
	for _, set := range sets {
		p := page.Set{
			Name: set.Name, Title: set.Title, Summary: set.Summary, About: set.Description, OAI: set.OAI, Path: set.Path, Elsewhere: set.Elsewhere, Private: set.Private,
			CapabilityList: docs.CapabilityList(set.Name), ResourceList: base.URI(names.Set(set.Name).ResourceList()), ChangeList: base.URI(names.Set(set.Name).ChangeList()),
		}
		if set.Versions.kept() {
			p.TimeGate, p.TimeMap = base.URI(memento.TimeGatePrefix), base.URI(memento.TimeMapPrefix)
		}
		if set.Atom != nil {
			p.Feed = base.URI(names.Feed(set.Name).Document())
		}
		all = append(all, p)
	}
	return all
}

// published returns what is known of the documents of a set, nothing before the
// first Publish.
func (s *Source) published(set string) page.Published {
	known := s.page.Load()
	if known == nil {
		return page.Published{}
	}
	p := (*known)[set]
	p.ResourceDump = s.description.Offers(set, resourcesync.ResourceDump)
	p.ChangeDump = s.description.Offers(set, resourcesync.ChangeDump)
	for _, c := range names.Archivable {
		if uri := s.description.Offers(set, names.ArchiveOf(c)); uri != "" {
			p.Archives = append(p.Archives, page.Archive{URI: uri, Of: archivesOf[c]})
		}
	}
	return p
}
