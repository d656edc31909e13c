package validate

import (
	"context"
	"errors"

	"lockstep/resourcesync"
	"lockstep/validate/finding"
	"lockstep/validate/internal/dump"
	"lockstep/validate/internal/visit"
	"lockstep/validate/opener"
)

// coreOf maps the capability of an archive to that of its documents.
var coreOf = map[resourcesync.Capability]resourcesync.Capability{
	resourcesync.ResourceListArchive: resourcesync.ResourceList,
	resourcesync.ResourceDumpArchive: resourcesync.ResourceDump,
	resourcesync.ChangeListArchive:   resourcesync.ChangeList,
	resourcesync.ChangeDumpArchive:   resourcesync.ChangeDump,
}

// archived checks an entry of an archive: the times it states for a document.
func (c *checker) archived(e *resourcesync.Entry) {
	if !first(c.names, e.Loc) {
		c.Advisef("RA-DOC-09", c.at(), "%s has a second entry", e.Loc)
	}
	if coreOf[c.doc.header.Capability].Changes() {
		c.archivedChanges(e)
		return
	}
	switch {
	case e.At.IsZero():
		if c.lacks("at", true) {
			c.Advisef("RA-DOC-07", c.at(), "an entry without at")
		}
	case c.last != nil && e.At.Compare(c.last.At) < 0:
		c.Advisef("RA-RES-03", c.at(), "at %s is before that of the entry in front, %s", e.At, c.last.At)
	}
}

func (c *checker) archivedChanges(e *resourcesync.Entry) {
	last := c.last
	switch {
	case e.From.IsZero() || e.Until.IsZero():
		c.Advisef("RA-DOC-07", c.at(), "an entry without from and until")
	case last == nil || last.From.IsZero() || last.Until.IsZero():
	case e.From.Compare(last.From) < 0:
		c.Errorf("RA-CHG-03", c.at(), "from %s is before that of the entry in front, %s", e.From, last.From)
	case e.From.Compare(last.Until) != 0:
		c.Advisef("RA-CHG-04", c.at(), "from %s is not the until of the entry in front, %s", e.From, last.Until)
	}
}

// archive checks an archive of the set, whose documents are docs, and the
// documents it names.
func (s *set) archive(ctx context.Context, docs []*document) error {
	past := *s // the past is not part of the comparison
	w := *s.walk
	w.tally, past.walk, past.past = nil, &w, true
	done := make(map[string]bool)
	var last *resourcesync.Entry
	for k, doc := range docs {
		for i := range doc.entries {
			e, p := &doc.entries[i], s.visitor.Collector.In(doc.uri)
			if done[e.Loc] {
				if k > 0 {
					p.Advisef("RA-DOC-09", doc.places[i], "%s is in another part, too", e.Loc)
				}
				continue
			}
			done[e.Loc] = true
			if i == 0 && last != nil && !last.From.IsZero() && !e.From.IsZero() && e.From.Compare(last.From) < 0 {
				p.Errorf("RA-CHG-03", doc.places[i], "from %s is before %s in the part in front", e.From, last.From)
			}
			if last = e; e.Until.Compare(s.archivedUntil) > 0 && doc.header.Capability == resourcesync.ChangeListArchive {
				s.archivedUntil = e.Until
			}
			if err := past.archivedAt(ctx, doc, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// archivedAt checks the document that entry i of an archive names.
func (s *set) archivedAt(ctx context.Context, archive *document, i int) error {
	e, at, p := &archive.entries[i], archive.places[i], s.visitor.Collector.In(archive.uri)
	doc, err := s.document(ctx, e.Loc, nil)
	switch {
	case errors.Is(err, opener.ErrUnseen):
		s.visitor.Collector.Report.Unseen++
		return nil
	case visit.IsMissing(err):
		p.Errorf("RA-GEN-09", at, "%s: %v", e.Loc, err)
		return nil
	case err != nil:
		return err
	case !doc.whole:
		return nil // reported by its parent
	case doc.header.Capability != coreOf[archive.header.Capability]:
		p.Errorf("RA-GEN-03", at, "%s is a %s", e.Loc, doc.kind)
		return nil
	}
	s.archivedTimes(p, at, e, &doc.header)
	if s.upElsewhere(doc) {
		s.visitor.Collector.In(doc.uri).Errorf(lacksUp[doc.kind], "", "the link up leads to %s, not to the Capability List", doc.header.Link(resourcesync.RelUp))
	}
	if doc.header.Link(resourcesync.RelArchives) == "" {
		s.visitor.Collector.In(doc.uri).Advisef("RA-GEN-12", "", "an archived document without a link archives")
	}
	docs := []*document{doc}
	if doc.kind&finding.Indexes != 0 {
		if docs, _, err = s.parts(ctx, doc); err != nil {
			return err
		}
	}
	if doc.kind&(finding.KindResourceDump|finding.KindResourceDumpIndex|finding.KindChangeDump|finding.KindChangeDumpIndex) == 0 {
		return nil
	}
	return s.archivedPackages(ctx, docs)
}

// archivedTimes compares the times in an entry of an archive with those in the
// archived document.
func (s *set) archivedTimes(p finding.Place, at string, e *resourcesync.Entry, h *resourcesync.Header) {
	if h.Capability.Changes() && h.Open() {
		p.Advisef("RA-GEN-10", at, "%s is open", e.Loc)
		return
	}
	for _, t := range []struct {
		name        string
		said, there resourcesync.Datetime
	}{{"at", e.At, h.At}, {"completed", e.Completed, h.Completed}, {"from", e.From, h.From}, {"until", e.Until, h.Until}} {
		if !t.said.IsZero() && t.said.Compare(t.there) != 0 {
			p.Advisef("RA-DOC-10", at, "%s %s, but %s says %s", t.name, t.said, e.Loc, said(t.there))
			return
		}
	}
}

// archivedPackages checks that the packages of archived dumps exist. Their
// content was checked when they were new.
func (s *set) archivedPackages(ctx context.Context, docs []*document) error {
	for _, d := range docs {
		for i := range d.entries {
			e := &d.entries[i]
			r, err := dump.OpenRemote(ctx, s.visitor, e.Loc)
			switch {
			case err == nil:
				r.Close()
			case errors.Is(err, opener.ErrUnseen):
				s.visitor.Collector.Report.Unseen++
			case visit.IsMissing(err):
				s.visitor.Collector.In(d.uri).Errorf("RA-GEN-09", d.places[i], "%s: %v", e.Loc, err)
			case err != nil:
				return err
			}
		}
	}
	return nil
}

// linksArchives checks the targets of archive links of a document of the set
// (RA-ADV-03).
func (s *set) linksArchives(ctx context.Context, doc *document) error {
	to := doc.header.Link(resourcesync.RelArchives)
	if to == "" || s.archiveLinks[to] {
		return nil
	}
	if s.archiveLinks == nil {
		s.archiveLinks = make(map[string]bool)
	}
	s.archiveLinks[to] = true
	p := s.visitor.Collector.In(doc.uri)
	there, err := s.look(ctx, to)
	switch {
	case errors.Is(err, opener.ErrUnseen):
		s.visitor.Collector.Report.Unseen++
	case visit.IsMissing(err):
		p.Errorf("RA-ADV-03", "root", "the link archives leads to %s: %v", to, err)
	case err != nil:
		return err
	case coreOf[there.header.Capability] != doc.header.Capability:
		p.Errorf("RA-ADV-03", "root", "the link archives leads to a %s of capability %s", there.kind, there.header.Capability)
	}
	return nil
}
