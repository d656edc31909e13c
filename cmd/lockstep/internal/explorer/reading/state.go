package reading

import (
	"cmp"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"

	"lockstep/cmd/lockstep/internal/explorer/figures"
	"lockstep/cmd/lockstep/internal/explorer/spool"
)

// A State is how far a List was read.
type State struct {
	Opened  bool // its first document was read
	Root    Result
	Parts   int  // known so far
	Read    int  // of them
	Failed  int  // of them
	More    bool // further parts exist, and how many is not known yet
	Busy    bool // a part is being read
	All     bool // all parts are being read
	Rows    int64
	Pending int64 // rows of parts that are being read
	Summary figures.Summary
	Err     error // of the first part that could not be read
	Changed int   // another number: another state
}

// State returns how far l was read.
func (l *List) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := State{Opened: l.opened, Root: l.root, Parts: len(l.parts), All: l.all, Summary: l.summary.Clone(), Changed: l.changed, Rows: l.summary.Rows}
	for _, p := range l.parts {
		switch {
		case p.segment != nil:
			s.Read++
		case p.err != nil:
			s.Failed++
			s.Err = cmp.Or(s.Err, p.err)
		case p.busy != nil:
			s.Busy = true
			s.Pending += p.rows.Load()
		}
	}
	last := l.parts[len(l.parts)-1]
	s.More = l.opened && !l.root.Index && last.segment == nil
	return s
}

// Complete reports whether all of the list was read.
func (s *State) Complete() bool { return s.Opened && s.Read == s.Parts }

// Progress says how many of the parts were read.
func (s *State) Progress() string {
	parts := strconv.Itoa(s.Parts)
	switch {
	case !s.Opened:
		return "not read yet"
	case s.More && s.Read == 1:
		return "1 part read, and more follow"
	case s.More:
		return strconv.Itoa(s.Read) + " parts read, and more follow"
	case s.Parts == 1 && s.Read == 1:
		return "read completely"
	case s.Parts == 1:
		return strconv.Itoa(s.Read) + " of 1 part read"
	}
	return strconv.Itoa(s.Read) + " of " + parts + " parts read"
}

// A PartState is how far a part was read.
type PartState struct {
	Address
	Read bool
	Busy bool
	Rows int
	Err  error
}

// Parts returns up to limit parts from number first on.
func (l *List) Parts(first, limit int) []PartState {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []PartState
	for n := max(first, 0); n < min(first+limit, len(l.parts)); n++ {
		p := l.parts[n]
		s := PartState{Address: p.Address, Read: p.segment != nil, Busy: p.busy != nil, Err: p.err, Rows: int(p.rows.Load())}
		if p.segment != nil {
			s.Rows = p.segment.Rows
		}
		out = append(out, s)
	}
	return out
}

// A Cursor is the position of a row: the number of the part, and of the row in it.
type Cursor struct{ Part, Row int }

// A Found is a row with its position.
type Found struct {
	Cursor
	spool.Row
}

// segments returns the segments of all parts; nil for those that were not read.
func (l *List) segments() ([]*spool.Segment, *spool.Spool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	segments := make([]*spool.Segment, len(l.parts))
	for i, p := range l.parts {
		segments[i] = p.segment
	}
	return segments, l.spool
}

// Row returns the row at a position; ok is false if there is none, or its part was not
// read.
func (l *List) Row(at Cursor) (row spool.Row, ok bool) {
	segments, s := l.segments()
	if at.Part < 0 || at.Part >= len(segments) || segments[at.Part] == nil || at.Row < 0 {
		return row, false
	}
	return s.Row(segments[at.Part], at.Row)
}

// Forward returns up to limit rows that f selects among those that were read, from a
// position on.
func (l *List) Forward(at Cursor, f spool.Filter, limit int) []Found {
	segments, s := l.segments()
	var found []Found
	for n := max(at.Part, 0); n < len(segments) && len(found) < limit; n++ {
		if segments[n] == nil {
			continue
		}
		first := 0
		if n == at.Part {
			first = max(at.Row, 0)
		}
		for _, r := range s.Forward(segments[n], first, f, limit-len(found)) {
			found = append(found, Found{Cursor{n, r.N}, r.Row})
		}
	}
	return found
}

// Backward returns up to limit rows that f selects before a position, the last ones of
// these, in their order.
func (l *List) Backward(at Cursor, f spool.Filter, limit int) []Found {
	segments, s := l.segments()
	var found []Found
	for n := min(at.Part, len(segments)-1); n >= 0 && len(found) < limit; n-- {
		if segments[n] == nil {
			continue
		}
		end := segments[n].Rows
		if n == at.Part {
			end = min(end, at.Row)
		}
		var some []Found
		for _, r := range s.Backward(segments[n], end, f, limit-len(found)) {
			some = append(some, Found{Cursor{n, r.N}, r.Row})
		}
		found = append(some, found...)
	}
	return found
}

// Search returns up to limit rows that f selects among those that were read, from a
// position on, and how many it selects in all, and before the position.
func (l *List) Search(at Cursor, f spool.Filter, limit int) (found []Found, total, before int) {
	segments, s := l.segments()
	type part struct {
		rows          []spool.Numbered
		total, before int
	}
	parts := make([]part, len(segments))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(len(segments), runtime.GOMAXPROCS(0), maxSearchers) {
		wg.Go(func() {
			for n := int(next.Add(1)) - 1; n < len(segments); n = int(next.Add(1)) - 1 {
				if segments[n] == nil {
					continue
				}
				first := 0
				switch {
				case n == at.Part:
					first = max(at.Row, 0)
				case n < at.Part:
					first = segments[n].Rows
				}
				p := &parts[n]
				p.rows, p.total, p.before = s.Search(segments[n], first, f, limit)
			}
		})
	}
	wg.Wait()
	for n := range parts {
		total, before = total+parts[n].total, before+parts[n].before
		for _, r := range parts[n].rows[:min(len(parts[n].rows), limit-len(found))] {
			found = append(found, Found{Cursor{n, r.N}, r.Row})
		}
	}
	return found, total, before
}

// maxSearchers is how many parts are searched at a time.
const maxSearchers = 4

// Last returns the last row of each of the URIs among those that were read.
func (l *List) Last(uris map[string]bool) map[string]spool.Row {
	segments, s := l.segments()
	found := map[string]spool.Row{}
	for _, seg := range segments {
		if seg != nil {
			s.Last(seg, uris, found)
		}
	}
	return found
}

// Changed returns two numbers of which one changes when more was read.
func (l *List) Changed() (changed int, pending int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.parts {
		if p.busy != nil {
			pending += p.rows.Load()
		}
	}
	return l.changed, pending
}
