package validate

import (
	"context"
	"errors"
	"fmt"

	"lockstep/internal/nesting"
	"lockstep/resourcesync"
	"lockstep/validate/finding"
	"lockstep/validate/internal/visit"
	"lockstep/validate/opener"
)

// parts reads the parts of an index and compares them with its entries. It
// returns those that could be read, and whether they are complete, in order and
// without gaps.
func (s *set) parts(ctx context.Context, index *document) (docs []*document, sound bool, err error) {
	sound = index.whole
	done := map[string]bool{index.uri: true, index.final: true}
	var last *document
	var nested nesting.Walk
	for i := range index.entries {
		e, at, p := &index.entries[i], index.places[i], s.visitor.Collector.In(index.uri)
		if done[e.Loc] {
			if e.Loc == index.uri || e.Loc == index.final {
				p.Errorf("RS-IDX-04", at, "the index names itself")
			}
			sound = false
			continue
		}
		done[e.Loc] = true
		part, err := s.document(ctx, e.Loc, s.each)
		switch {
		case errors.Is(err, opener.ErrUnseen):
			s.visitor.Collector.Report.Unseen++
			sound = false
			continue
		case visit.IsMissing(err):
			p.Errorf("RS-IDX-06", at, "%s: %v", e.Loc, err)
			sound = false
			continue
		case err != nil:
			return nil, false, err
		}
		if part.kind != index.kind {
			nested.Yield()
		} else if err := nested.Barren(); err != nil {
			p.Errorf("RS-IDX-04", at, "%s is an index within an index; %v", e.Loc, err)
			return docs, false, nil
		}
		if !s.part(index, i, part) {
			sound = false
			continue
		}
		if index.kind&finding.Intervals != 0 && last != nil && !s.follows(index, i, last, part) {
			sound = false
		}
		last = part
		docs = append(docs, part)
	}
	return docs, sound, nil
}

// part compares one part with entry i of its index. It reports whether the part
// is usable.
func (s *set) part(index *document, i int, part *document) bool {
	e, at, p, own := &index.entries[i], index.places[i], s.visitor.Collector.In(index.uri), s.visitor.Collector.In(part.uri)
	switch {
	case !part.whole:
		return false // reported by its parent
	case part.kind == index.kind:
		p.Errorf("RS-IDX-04", at, "%s is an index within an index", e.Loc)
		return false
	case part.header.Capability != index.header.Capability:
		p.Errorf("RS-GEN-05", at, "%s is a %s", e.Loc, part.kind)
		return false
	}
	s.stale(p, "RS-EM-06", at, e, part)
	if s.upElsewhere(part) {
		own.Errorf("RS-IDX-05", "", "the link up leads to %s, not to the Capability List", part.header.Link(resourcesync.RelUp))
	}
	switch to := part.header.Link(resourcesync.RelIndex); {
	case to == "":
		own.Warnf("RS-IDX-05", "", "a part without a link index")
	case to == index.uri, to == index.final:
	case index.kind&finding.Snapshots != 0 && part.header.Link(resourcesync.RelArchives) != "": // RA-AMB-08: the index itself is archived
	default:
		own.Warnf("RS-IDX-05", "", "the link index leads to %s, not to %s, which names this part", to, index.uri)
	}
	switch {
	case index.kind&finding.Snapshots != 0:
		s.partSnapshot(p, at, &index.header, e, &part.header)
	case index.kind&finding.Intervals != 0:
		s.partInterval(p, at, index.kind, &index.header, e, &part.header)
	}
	return true
}

// partSnapshot compares the time of a part with that in the index.
func (s *set) partSnapshot(p finding.Place, at string, index *resourcesync.Header, e *resourcesync.Entry, part *resourcesync.Header) {
	rule := "RS-RLI-03"
	if index.Capability == resourcesync.ResourceDump {
		rule = "RS-RDI-01"
	}
	switch {
	case !e.At.IsZero() && e.At.Compare(part.At) != 0:
		p.Advisef(rule, at, "at %s, but %s says %s", e.At, e.Loc, said(part.At))
	case !e.Completed.IsZero() && e.Completed.Compare(part.Completed) != 0:
		p.Advisef(rule, at, "completed %s, but %s says %s", e.Completed, e.Loc, said(part.Completed))
	case !index.At.IsZero() && !part.At.IsZero() && part.At.Compare(index.At) < 0:
		p.Advisef(rule, at, "%s was taken at %s, before the at of the index, %s", e.Loc, part.At, index.At)
	case !index.Completed.IsZero() && part.Completed.Compare(index.Completed) > 0:
		p.Advisef(rule, at, "%s was completed at %s, after the completed of the index, %s", e.Loc, part.Completed, index.Completed)
	}
}

// partInterval compares the interval of a part with that in the index.
func (s *set) partInterval(p finding.Place, at string, k finding.Kinds, index *resourcesync.Header, e *resourcesync.Entry, part *resourcesync.Header) {
	ends, within := "RS-CHI-04", "RS-CHI-05"
	if k == finding.KindChangeDumpIndex {
		ends, within = "RS-CDI-01", "RS-CDI-01"
	}
	switch {
	case e.From.IsZero() && e.Until.IsZero(): // no rs:md: the part itself is used
	case e.Until.IsZero() && !part.Until.IsZero() && !part.Living:
		p.Errorf(ends, at, "no until, but %s is closed at %s", e.Loc, part.Until)
	case !e.Until.IsZero() && e.Until.Compare(part.Until) != 0:
		p.Errorf(ends, at, "until %s, but %s says %s", e.Until, e.Loc, said(part.Until))
	case !e.From.IsZero() && !part.FromUnproven && e.From.Compare(part.From) != 0:
		p.Advisef(within, at, "from %s, but %s says %s", e.From, e.Loc, said(part.From))
	}
	if !index.FromUnproven && !part.FromUnproven && part.From.Compare(index.From) < 0 {
		p.Advisef(within, at, "%s begins at %s, before the index, %s", e.Loc, part.From, index.From)
	}
	if !index.Until.IsZero() && part.Open() {
		p.Advisef(within, at, "%s is open, the index closed at %s", e.Loc, index.Until)
	}
}

// follows checks that a part begins where the previous one ended. The entries
// of the index were checked with the index.
func (s *set) follows(index *document, i int, last, part *document) bool {
	rule := indexRule[index.kind].times
	if !index.entries[i].From.IsZero() && !index.entries[i-1].Until.IsZero() {
		return last.header.Until.Compare(part.header.From) == 0
	}
	p, at := s.visitor.Collector.In(index.uri), index.places[i]
	switch {
	case last.header.Open():
		if index.entries[i].From.IsZero() {
			p.Advisef(rule, at, "the part in front of %s is open: only the last can be", part.uri)
		}
		return false
	case part.header.FromUnproven || last.header.FromUnproven:
		return false
	case last.header.Until.Compare(part.header.From) != 0:
		if index.entries[i].From.IsZero() || index.entries[i-1].Until.IsZero() {
			p.Advisef(rule, at, "%s begins at %s, the part in front ends at %s", part.uri, part.header.From, last.header.Until)
		}
		return false
	}
	return true
}

// said formats a datetime that may be missing.
func said(d resourcesync.Datetime) string {
	if d.IsZero() {
		return "nothing"
	}
	return fmt.Sprint(d)
}
