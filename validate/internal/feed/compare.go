package feed

import (
	"context"
	"fmt"
	"math"
	"time"

	"lockstep/validate/finding"
	"lockstep/validate/internal/tally"
)

// addEntry records entry n of a feed document, and a text that belongs to it.
func (f *walk) addEntry(number, n int, about tally.About, id string, updated time.Time, text string) (err error) {
	r := tally.Record{About: about, Time: nanoseconds(updated), Length: -1}
	if number >= 0 && text != "" {
		if r.Length, err = f.tally.Keep(text); err != nil {
			return err
		}
	}
	return f.tally.Add(number, n, id, r)
}

// nanoseconds returns t as a number that preserves the order of times; times out
// of range become the minimum or maximum.
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

// A story is the entries of a logical feed about one record, oldest first.
type story struct {
	*walk
	newest []tally.Record // of the latest time so far
	inHead bool           // some entry is in the subscription document
}

// entriesOnce compares the entries of all documents about each record, and then
// checks a sample of the active entries.
func (f *walk) entriesOnce(ctx context.Context) error {
	s := &story{walk: f}
	// Failures of alternate links do not cause the feed to be read again.
	defer f.visitor.Flaky.Store(f.visitor.Flaky.Load())
	follower := f.newFollower(ctx)
	err := f.tally.Each(ctx, func(r *tally.Record) error {
		if len(s.newest) > 0 && r.Key != s.newest[0].Key {
			s.end(ctx, follower)
			s.newest, s.inHead = s.newest[:0], false
		}
		s.add(r)
		return ctx.Err()
	})
	if err == nil && len(s.newest) > 0 {
		s.end(ctx, follower)
	}
	return follower.finish(ctx, err)
}

// add adds the next entry.
func (s *story) add(r *tally.Record) {
	s.inHead = s.inHead || r.Doc == 0
	if len(s.newest) > 0 && r.Time != s.newest[0].Time {
		for i := range s.newest {
			for j := range i {
				if s.newest[i].Doc == s.newest[j].Doc {
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

// end checks the newest entry: of several with the same time, that in the
// latest document, which was read first (AP-CLS-03).
func (s *story) end(ctx context.Context, to *follower) {
	last := &s.newest[0]
	for i := range s.newest {
		if r := &s.newest[i]; r.Doc < last.Doc {
			last = r
		}
	}
	settled := true
	for i := range s.newest {
		r := &s.newest[i]
		switch {
		case r == last:
		case r.Doc == last.Doc && r.About != last.About:
			settled = false
			s.tie("AP-DEL-04", finding.Warning, r, last)
		case r.Doc == last.Doc && r.About == tally.Active:
			settled = false
			s.tie("AP-ACT-01", finding.Error, r, last)
		case r.Doc == last.Doc:
			s.tie("AP-DOC-06", finding.Warning, r, last)
		case last.About == tally.Active:
			s.tie("AP-ACT-03", finding.Warning, last, r)
		default:
			s.tie("AP-DEL-04", finding.Warning, last, r)
		}
	}
	if last.About != tally.Active || !settled {
		return
	}
	if head := s.chain[0]; head.complete && head.whole && !s.inHead {
		s.find("AP-CMP-02", finding.Error, last, "the active entry of %s is not in %s, which says it is complete", s.id(last), head.uri)
	}
	to.offer(ctx, last)
}

// tie reports two entries of one record with the same time.
func (s *story) tie(rule string, level finding.Level, r, other *tally.Record) {
	what := map[tally.About]string{tally.Active: "an entry", tally.Deletion: "a deletion entry"}
	s.find(rule, level, r, "%s has %s of %s, and %s of the same time: %s",
		s.id(r), what[r.About], tally.Instant(r.Time), what[other.About], s.tally.Where(other))
}

func (f *walk) id(r *tally.Record) string { return f.tally.Name(r) }

func (f *walk) find(rule string, level finding.Level, r *tally.Record, format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.visitor.Collector.In(f.tally.Document(r)).Add(rule, level, r.Location(), fmt.Sprintf(format, args...))
}
