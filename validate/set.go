package validate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"slices"

	"lockstep/atompmh"
	"lockstep/resourcesync"
	"lockstep/validate/finding"
	"lockstep/validate/internal/feed"
	"lockstep/validate/internal/tally"
	"lockstep/validate/internal/visit"
	"lockstep/validate/opener"
)

// A set is one Capability List and the documents below it.
type set struct {
	*walk
	uri         string // of the Capability List; empty if there is none
	description string // of the Source Description; empty if unknown
	heads       map[string][sha256.Size]byte
	facts       facts
	sampler     sampler
	listURI     string   // entry document of the Resource List
	listDocs    []string // documents with its entries
	changeURI   string   // entry document of the Change List
	changeDocs  []string // documents with its entries
	changeFrom  resourcesync.Datetime
	feedURIs    []string        // named by the Capability List
	linked      map[string]bool // whether the target of a Link header is a Capability List

	past          bool            // the current documents are archived, not current
	archiveLinks  map[string]bool // checked targets of links to archives
	archivedUntil resourcesync.Datetime
}

// set checks the set whose Capability List is at uri; or, without one, the
// document of capability c at uri and its parts. If the documents were replaced
// while they were read, or a connection broke, contradictions are not filed yet,
// and everything is read again.
func (w *walk) set(ctx context.Context, uri, description string, c resourcesync.Capability) error {
	for attempt := 1; ; attempt++ {
		before, served := *w.visitor.Collector.Report, maps.Clone(w.served)
		w.visitor.Collector.Hold()
		w.visitor.Flaky.Store(false)
		s := &set{walk: w, uri: uri, description: description, heads: make(map[string][sha256.Size]byte), linked: make(map[string]bool)}
		s.sampler.begin(w.visitor.Settings, uri)
		w.tally = tally.New(w.visitor.Settings.TempDir)
		err := s.visit(ctx, c)
		w.tally.Close()
		w.tally = nil
		if err != nil || !w.visitor.Collector.IsWaiting() || attempt == visit.MaxAttempts || !w.visitor.Flaky.Load() && !s.replaced(ctx) {
			w.visitor.Collector.Release()
			return cmp.Or(err, w.feeds(ctx, s))
		}
		w.visitor.Collector.Drop()
		before.Documents = w.visitor.Collector.Report.Documents // each counts once
		*w.visitor.Collector.Report, w.served = before, served
	}
}

// replaced reports whether an entry document has been replaced by now.
func (s *set) replaced(ctx context.Context) bool {
	for uri, sum := range s.heads {
		if doc, err := s.look(ctx, uri); err == nil && doc.sum != sum {
			return true
		}
	}
	return false
}

// visit reads the documents of the set.
func (s *set) visit(ctx context.Context, c resourcesync.Capability) error {
	if c != resourcesync.CapabilityList {
		uri := s.uri
		s.uri = ""
		doc, err := s.document(ctx, uri, s.each)
		if err != nil {
			return err
		}
		if err := s.capability(ctx, doc); err != nil {
			return err
		}
		return s.finish(ctx)
	}
	list, err := s.document(ctx, s.uri, nil)
	if err != nil {
		return err
	}
	s.heads[s.uri] = list.sum
	for _, l := range list.header.Links {
		if (l.Rel == atompmh.RelFeed || l.Rel == "current") && visit.BaseType(l.Type) == atompmh.MediaType {
			s.feedURIs = append(s.feedURIs, l.Href)
		}
	}
	if err := s.checkUp(ctx, list); err != nil {
		return err
	}
	// The Change List comes last: it then includes all changes that the other
	// documents show.
	order := []resourcesync.Capability{resourcesync.ResourceList, resourcesync.ResourceDump, resourcesync.ChangeDump, resourcesync.ChangeList,
		resourcesync.ResourceListArchive, resourcesync.ResourceDumpArchive, resourcesync.ChangeListArchive, resourcesync.ChangeDumpArchive}
	for _, c := range order {
		for i := range list.entries {
			if list.entries[i].Capability != c {
				continue
			}
			if err := s.target(ctx, list, i); err != nil {
				return err
			}
			break // RS-CL-02: the first counts
		}
	}
	return s.finish(ctx)
}

// finish performs the checks that need all documents.
func (s *set) finish(ctx context.Context) error {
	if l, c := s.facts.list, s.facts.changes; l != nil && c != nil && c.from > l.from {
		s.visitor.Collector.In(s.changeURI).Advisef("RS-CHL-10", "", "it begins at %s, the Resource List was taken at %s: changes between them are listed nowhere",
			s.changeFrom, tally.Instant(l.from))
	}
	if until := s.archivedUntil; s.facts.changes != nil && !until.IsZero() && until.Compare(s.changeFrom) < 0 {
		s.visitor.Collector.In(s.changeURI).Advisef("RA-CHG-09", "", "it begins at %s, its archive ends at %s: changes between them are listed nowhere", s.changeFrom, until)
	}
	if err := s.compare(ctx, s.tally, &s.facts); err != nil {
		return err
	}
	return s.sample(ctx)
}

// checkUp checks that the Capability List links to the Source Description that
// named it (RS-CL-04).
func (s *set) checkUp(ctx context.Context, list *document) error {
	up := list.header.Link(resourcesync.RelUp)
	if s.description == "" || up == "" || up == s.description {
		return nil
	}
	p := s.visitor.Collector.In(s.uri)
	there, err := s.look(ctx, up)
	switch {
	case errors.Is(err, opener.ErrUnseen):
		s.visitor.Collector.Report.Unseen++
	case visit.IsMissing(err):
		p.Errorf("RS-CL-04", "", "the link up leads to %s: %v", up, err)
	case err != nil:
		return err
	case !names(there, list) && there.kind != finding.KindDescriptionIndex:
		p.Errorf("RS-CL-04", "", "the link up leads to %s, which does not name this Capability List", up)
	}
	return nil
}

// each is called for each entry of the documents of the set: the sample is
// taken from the Resource List.
func (s *set) each(doc *document, at func() string, e *resourcesync.Entry) {
	if doc.kind == finding.KindResourceList && !s.past {
		s.sampler.offer(doc.uri, at, e)
	}
}

// target checks the document that entry i of the Capability List names.
func (s *set) target(ctx context.Context, list *document, i int) error {
	e, at, p := &list.entries[i], list.places[i], s.visitor.Collector.In(list.uri)
	doc, err := s.document(ctx, e.Loc, s.each)
	switch {
	case errors.Is(err, opener.ErrUnseen):
		s.visitor.Collector.Report.Unseen++
		return nil
	case visit.IsMissing(err):
		p.Errorf("RS-CL-06", at, "%s: %v", e.Loc, err)
		return nil
	case err != nil:
		return err
	case !doc.whole:
		return nil // reported by its parent
	case doc.header.Capability != e.Capability:
		p.Errorf("RS-CL-06", at, "%s is a %s, not what capability %s says", e.Loc, doc.kind, e.Capability)
		return nil
	}
	s.heads[doc.uri] = doc.sum
	s.stale(p, "RS-CL-07", at, e, doc)
	if s.upElsewhere(doc) {
		s.visitor.Collector.In(doc.uri).Errorf(lacksUp[doc.kind], "", "the link up leads to %s, not to the Capability List", doc.header.Link(resourcesync.RelUp))
	}
	if index := doc.header.Link(resourcesync.RelIndex); doc.kind&(finding.Lists|finding.KindArchive) != 0 && index != "" {
		p.Errorf("RS-IDX-02", at, "%s is a part: its index is %s", e.Loc, index)
	}
	return s.capability(ctx, doc)
}

// upElsewhere reports whether a document of the set has a link up that does not
// lead to the Capability List.
func (s *set) upElsewhere(doc *document) bool {
	up := doc.header.Link(resourcesync.RelUp)
	return s.uri != "" && up != "" && up != s.uri
}

// capability continues below the entry document of a capability, and records
// what it shows.
func (s *set) capability(ctx context.Context, doc *document) error {
	if doc.kind&(finding.Lists|finding.Indexes) != 0 {
		if err := s.linksArchives(ctx, doc); err != nil {
			return err
		}
	}
	docs, sound := []*document{doc}, doc.whole
	if doc.kind&(finding.Indexes|finding.KindArchiveIndex) != 0 {
		var err error
		if docs, sound, err = s.parts(ctx, doc); err != nil {
			return err
		}
	}
	h := &doc.header
	if coreOf[h.Capability] != "" {
		return s.archive(ctx, docs)
	}
	switch h.Capability {
	case resourcesync.ResourceList:
		s.listURI, s.listDocs = doc.uri, addresses(docs)
		if !slices.Contains(s.resourceLists, doc.uri) {
			s.walk.resourceLists = append(s.resourceLists, doc.uri)
		}
		if sound {
			s.facts.list = snapshotOf(h)
		}
	case resourcesync.ChangeList:
		s.changeURI, s.changeDocs, s.changeFrom = doc.uri, addresses(docs), h.From
		if sound && !h.FromUnproven {
			s.facts.changes = spanOf(h.From, h.Until)
		}
	case resourcesync.ResourceDump:
		packed, err := s.dumps(ctx, docs)
		if err != nil {
			return err
		}
		if sound && packed {
			s.facts.dump = snapshotOf(h)
		}
	case resourcesync.ChangeDump:
		packed, err := s.dumps(ctx, docs)
		if err != nil {
			return err
		}
		if last := lastPackage(docs); sound && packed && last != nil && !h.FromUnproven {
			s.facts.repeats = spanOf(h.From, last.Until)
		}
	}
	return nil
}

func addresses(docs []*document) []string {
	uris := make([]string, len(docs))
	for i, d := range docs {
		uris[i] = d.uri
	}
	return uris
}

// lastPackage returns the entry of the last package of a Change Dump, or nil if
// it does not state the end of its interval.
func lastPackage(docs []*document) *resourcesync.Entry {
	for i := len(docs) - 1; i >= 0; i-- {
		if n := len(docs[i].entries); n > 0 {
			if e := &docs[i].entries[n-1]; !e.Until.IsZero() {
				return e
			}
			return nil
		}
	}
	return nil
}

// feeds checks the feeds that the Capability List of s names.
func (w *walk) feeds(ctx context.Context, s *set) error {
	for _, uri := range s.feedURIs[:min(len(s.feedURIs), maxFeeds)] {
		err := feed.Check(ctx, w.visitor, uri)
		switch {
		case errors.Is(err, opener.ErrUnseen):
			w.visitor.Collector.Report.Unseen++
		case visit.IsMissing(err):
			w.visitor.Collector.In(s.uri).Errorf("AP-GEN-03", "root", "the link to a feed leads to %s: %v", uri, err)
		case err != nil:
			return err
		}
	}
	return nil
}

// maxFeeds caps the feeds of one set.
const maxFeeds = 10
