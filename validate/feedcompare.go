package validate

import (
	"fmt"
	"math"
	"time"

	"lockstep/validate/finding"
)

// addEntry remembers entry n of a feed document, and a text that belongs to it.
func (f *feedWalk) addEntry(number, n int, told about, id string, updated time.Time, text string) (err error) {
	r := record{about: told, time: nanoseconds(updated), length: -1}
	if number >= 0 && text != "" {
		if r.length, err = f.tally.keepText(text); err != nil {
			return err
		}
	}
	return f.tally.add(number, n, id, r)
}

// nanoseconds returns t as a number that keeps the order of times, also of those
// too far away to be told apart.
func nanoseconds(t time.Time) int64 {
	switch {
	case t.Year() < 1678:
		return math.MinInt64
	case t.Year() > 2261:
		return math.MaxInt64
	}
	return t.UnixNano()
}

// maxTied caps the entries of one record and one time that are compared.
const maxTied = 100

// A story is what a logical feed tells of one record, oldest entry first.
type story struct {
	*feedWalk
	newest []record // of the latest time so far
	inHead bool     // some entry is in the subscription document
}

// entriesOnce looks at what all documents together tell of each record, and
// then at a sample of the active entries.
func (f *feedWalk) entriesOnce() error {
	s := &story{feedWalk: f}
	// What alternate links lead to is asked for again by itself, not with the feed.
	defer f.flaky.Store(f.flaky.Load())
	follower := f.newFollower()
	err := f.tally.each(f.ctx, func(r *record) error {
		if len(s.newest) > 0 && r.key != s.newest[0].key {
			s.end(follower)
			s.newest, s.inHead = s.newest[:0], false
		}
		s.add(r)
		return f.ctx.Err()
	})
	if err == nil && len(s.newest) > 0 {
		s.end(follower)
	}
	return follower.finish(err)
}

// add takes the next entry.
func (s *story) add(r *record) {
	s.inHead = s.inHead || r.doc == 0
	if len(s.newest) > 0 && r.time != s.newest[0].time {
		for i := range s.newest {
			for j := range i {
				if s.newest[i].doc == s.newest[j].doc {
					s.tie("AP-DOC-06", finding.Warning, &s.newest[i], &s.newest[j])
				}
			}
		}
		s.newest = s.newest[:0]
	}
	if len(s.newest) < maxTied {
		s.newest = append(s.newest, *r)
	}
}

// end looks at the newest entry: of several of one time that in the latest
// document, which was read first (AP-CLS-03).
func (s *story) end(to *follower) {
	last := &s.newest[0]
	for i := range s.newest {
		if r := &s.newest[i]; r.doc < last.doc {
			last = r
		}
	}
	settled := true
	for i := range s.newest {
		r := &s.newest[i]
		switch {
		case r == last:
		case r.doc == last.doc && r.about != last.about:
			settled = false
			s.tie("AP-DEL-04", finding.Warning, r, last)
		case r.doc == last.doc && r.about == activeTold:
			settled = false
			s.tie("AP-ACT-01", finding.Error, r, last)
		case r.doc == last.doc:
			s.tie("AP-DOC-06", finding.Warning, r, last)
		case last.about == activeTold:
			s.tie("AP-ACT-03", finding.Warning, last, r)
		default:
			s.tie("AP-DEL-04", finding.Warning, last, r)
		}
	}
	if last.about != activeTold || !settled {
		return
	}
	if head := s.chain[0]; head.complete && head.whole && !s.inHead {
		s.find("AP-CMP-02", finding.Error, last, "the active entry of %s is not in %s, which says it is complete", s.id(last), head.uri)
	}
	to.offer(last)
}

// tie tells of two entries of one record and one time.
func (s *story) tie(rule string, level finding.Level, r, other *record) {
	what := map[about]string{activeTold: "an entry", deletionTold: "a deletion entry"}
	s.find(rule, level, r, "%s has %s of %s, and %s of the same time: %s",
		s.id(r), what[r.about], instant(r.time), what[other.about], s.tally.where(other))
}

func (f *feedWalk) id(r *record) string { return f.tally.nameOf(r) }

func (f *feedWalk) find(rule string, level finding.Level, r *record, format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.collector.In(f.tally.document(r)).Add(rule, level, r.location(), fmt.Sprintf(format, args...))
}
