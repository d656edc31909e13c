package validate

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"lockstep/resourcesync"
	"lockstep/validate/finding"
	"lockstep/validate/internal/tally"
)

// A span is the time that a document covers, in nanoseconds.
type span struct{ from, to int64 }

const forever = math.MaxInt64

// maxEvents caps the changes of one resource that are compared at a time.
const maxEvents = 10_000

// tallyEntry records entry n of a document for comparison with other documents
// about the same resource.
func (w *walk) tallyEntry(number, n int, doc *document, e *resourcesync.Entry) error {
	r := tally.Record{Change: e.Change, Length: -1}
	switch doc.kind {
	case finding.KindResourceList:
		r.About = tally.Listed
	case finding.KindResourceDumpManifest:
		r.About = tally.Dumped
	case finding.KindChangeList:
		r.About = tally.Changed
	case finding.KindChangeDumpManifest:
		r.About = tally.Repeats
	default:
		return nil
	}
	if r.About >= tally.Changed {
		if r.Undated = e.Datetime.IsZero(); !r.Undated {
			r.Time, r.Unit = e.Datetime.Time().UnixNano(), e.Datetime.Granularity()
		}
	}
	for _, h := range e.Hashes {
		if r.Algorithm == 0 || h.Algorithm == resourcesync.SHA256 {
			r.Algorithm, r.Digest = h.Algorithm, binary.BigEndian.Uint64([]byte(h.Digest[:8]))
		}
	}
	if e.HasLength {
		r.Length = e.Length
	}
	return w.tally.Add(number, n, e.Loc, r)
}

// facts is what compare needs to know about the documents of a set.
type facts struct {
	list, dump       *span // from at to completed, or unbounded; nil if none could be read completely
	changes, repeats *span // from from to until, or unbounded; likewise
	single           bool  // only one document was read, so nothing else is known
}

// compare compares the entries about each resource in all documents of a set.
func (w *walk) compare(ctx context.Context, t *tally.Tally, f *facts) error {
	g := &group{walk: w, tally: t, facts: f}
	err := t.Each(ctx, func(r *tally.Record) error {
		if g.any && r.Key != g.key {
			g.finish()
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		g.add(r)
		return nil
	})
	if err != nil {
		return err
	}
	if g.any {
		g.finish()
	}
	return nil
}

// A group is the entries about one resource.
type group struct {
	*walk
	tally *tally.Tally
	facts *facts

	any          bool
	key          [16]byte
	list, dump   *tally.Record
	events       []tally.Record          // from Change Lists and Change Dumps
	overflow     bool                    // there were more
	undated      [tally.Repeats + 1]bool // there are changes whose time is not stated, in documents of a kind
	mixed        bool                    // not all times have the same unit
	nameOf       string
	recordedList tally.Record
	recordedDump tally.Record
}

func (g *group) add(r *tally.Record) {
	if !g.any {
		g.any, g.key, g.list, g.dump, g.overflow, g.nameOf = true, r.Key, nil, nil, false, ""
		g.undated, g.mixed = [tally.Repeats + 1]bool{}, false
		g.events = g.events[:0]
	}
	switch r.About {
	case tally.Listed:
		if g.list != nil {
			g.find(r, "RS-RL-04", "%s is listed twice: also %s", g.name(r), g.where(g.list))
			return
		}
		g.recordedList = *r
		g.list = &g.recordedList
	case tally.Dumped:
		if g.dump != nil {
			g.find(r, "RS-RD-07", "%s is in the dump twice: also %s", g.name(r), g.where(g.dump))
			return
		}
		g.recordedDump = *r
		g.dump = &g.recordedDump
	case tally.Changed, tally.Repeats:
		switch {
		case r.Undated:
			g.undated[r.About] = true
			return
		case len(g.events) >= maxEvents:
			g.overflow = true
			return
		}
		g.mixed = g.mixed || len(g.events) > 0 && r.Unit != g.events[0].Unit
		g.events = append(g.events, *r)
	}
}

func (g *group) name(r *tally.Record) string {
	if g.nameOf == "" {
		g.nameOf = g.tally.Name(r)
	}
	return g.nameOf
}

// where returns the location of a record.
func (g *group) where(r *tally.Record) string {
	return g.tally.Where(r)
}

func (g *group) find(r *tally.Record, rule, format string, args ...any) {
	g.visitor.Collector.In(g.tally.Document(r)).Add(rule, levelOfComparison(rule), r.Location(), fmt.Sprintf(format, args...))
}

// finish compares the entries about the resource, and clears the group.
func (g *group) finish() {
	g.any = false
	if len(g.events) > 0 {
		g.eventsOnce()
	}
	if g.facts.single || g.overflow || g.undated[tally.Changed] {
		return // what happened when is not known
	}
	if len(g.events) > 0 && !g.undated[tally.Repeats] && g.facts.changes != nil && g.facts.repeats != nil {
		g.eventsBoth()
	}
	inList := g.snapshot(g.facts.list, g.list, "Resource List")
	inDump := g.snapshot(g.facts.dump, g.dump, "Resource Dump")
	if inList && inDump {
		g.snapshots()
	}
}

// eventsOnce checks that no two changes have the same time (RS-CHL-07).
func (g *group) eventsOnce() {
	var last [tally.Repeats + 1]*tally.Record
	for i := range g.events {
		r := &g.events[i]
		if l := last[r.About]; l != nil && l.Time == r.Time {
			g.find(r, "RS-CHL-07", "%s has two changes at %s: also %s", g.name(r), tally.Instant(r.Time), g.where(l))
		}
		last[r.About] = r
	}
}

// eventsBoth compares Change List and Change Dump in the time that both cover.
func (g *group) eventsBoth() {
	from := max(g.facts.changes.from, g.facts.repeats.from)
	to := min(g.facts.changes.to, g.facts.repeats.to)
	for i := 0; i < len(g.events); {
		r := &g.events[i]
		var said [tally.Repeats + 1]*tally.Record
		for ; i < len(g.events) && g.events[i].Time == r.Time; i++ {
			said[g.events[i].About] = &g.events[i]
		}
		inList, inDump := said[tally.Changed], said[tally.Repeats]
		switch {
		case r.Time <= from || r.End() >= to:
		case g.mixed && (inList == nil || inDump == nil): // it may be another one, in another unit
		case inDump == nil:
			g.find(inList, "RS-CDM-02", "the change of %s at %s is not in the Change Dump", g.name(r), tally.Instant(r.Time))
		case inList == nil:
			g.find(inDump, "RS-CHL-05", "the change of %s at %s is not in the Change List", g.name(r), tally.Instant(r.Time))
		case inList.Change != inDump.Change:
			g.find(inDump, "RS-CL-03", "%s was %s at %s, but %s according to the Change List", g.name(r), inDump.Change, tally.Instant(r.Time), inList.Change)
		case !alike(inList, inDump):
			g.find(inDump, "RS-CL-03", "%s: hash or length is not that of the Change List for %s", g.name(r), tally.Instant(r.Time))
		}
	}
}

// snapshot compares the entry about the resource, or nil, in a list or dump
// taken in the time s with the changes. It reports whether no change applies,
// so that only the entry itself is known.
func (g *group) snapshot(s *span, r *tally.Record, what string) (alone bool) {
	if s == nil {
		return false
	}
	if c := g.facts.changes; c == nil || c.from > s.from || c.to < s.last() {
		return true
	}
	var before *tally.Record // the last change that must be included
	alone = true
	explained := false // by a change that may or may not be included, or be the last
	for i := range g.events {
		e := &g.events[i]
		switch {
		case e.About != tally.Changed:
		case e.Time < s.from && e.End() <= s.from:
			before = e
			alone = false
			explained = explained || g.mixed && agrees(r, e)
		case e.Time <= s.to:
			alone = false
			explained = explained || agrees(r, e)
		}
	}
	if before == nil || explained || agrees(r, before) {
		return alone
	}
	switch {
	case r == nil:
		g.find(before, "RS-CL-03", "%s was %s at %s but is not in the %s", g.name(before), before.Change, tally.Instant(before.Time), what)
	case before.Change == resourcesync.Deleted:
		g.find(r, "RS-CL-03", "%s is in the %s although it was deleted at %s: %s", g.name(r), what, tally.Instant(before.Time), g.where(before))
	default:
		g.find(r, "RS-CL-03", "%s: hash or length is not that since the change at %s: %s", g.name(r), tally.Instant(before.Time), g.where(before))
	}
	return false
}

// snapshots compares list and dump, if there was no change between them.
func (g *group) snapshots() {
	l, d := g.facts.list, g.facts.dump
	if c := g.facts.changes; c == nil && l.from != d.from || c != nil && (c.from > min(l.from, d.from) || c.to < max(l.last(), d.last())) {
		return // changes between them are unknown
	}
	for i := range g.events {
		if e := &g.events[i]; e.About == tally.Changed && e.Time >= min(l.from, d.from) {
			return
		}
	}
	switch {
	case g.list == nil && g.dump == nil:
	case g.list == nil:
		g.find(g.dump, "RS-CL-03", "%s is in the Resource Dump but not in the Resource List", g.name(g.dump))
	case g.dump == nil:
		g.find(g.list, "RS-CL-03", "%s is in the Resource List but not in the Resource Dump", g.name(g.list))
	case !alike(g.list, g.dump):
		g.find(g.dump, "RS-CL-03", "%s: hash or length is not that of the Resource List: %s", g.name(g.dump), g.where(g.list))
	}
}

// agrees reports whether r, nil for a resource that is not listed, can be its
// state after e.
func agrees(r, e *tally.Record) bool {
	if r == nil || e.Change == resourcesync.Deleted {
		return r == nil && e.Change == resourcesync.Deleted
	}
	return alike(r, e)
}

// alike reports whether all properties that both state are equal.
func alike(a, b *tally.Record) bool {
	return (a.Algorithm != b.Algorithm || a.Digest == b.Digest) && (a.Length < 0 || b.Length < 0 || a.Length == b.Length)
}

// last returns the end of the time in which a snapshot was taken; its beginning if the
// end is not stated.
func (s *span) last() int64 {
	if s.to == forever {
		return s.from
	}
	return s.to
}

// snapshotOf returns the time in which a list or dump was made.
func snapshotOf(h *resourcesync.Header) *span {
	s := spanOf(h.At, h.Completed)
	if s != nil && !h.Completed.IsZero() {
		s.to = h.Completed.End().UnixNano()
	}
	return s
}

// spanOf returns the time that a document covers.
func spanOf(from, to resourcesync.Datetime) *span {
	s := &span{to: forever}
	if from.IsZero() {
		return nil
	}
	s.from = from.Time().UnixNano()
	if !to.IsZero() {
		s.to = to.Time().UnixNano()
	}
	return s
}

// levelOfComparison returns the level of a rule about several documents: that
// changes of one resource have different datetimes is a rule of this project.
func levelOfComparison(rule string) finding.Level {
	if rule == "RS-CHL-07" {
		return finding.Advice
	}
	return finding.Error
}
