package destination

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"lockstep/resourcesync"
)

// A stage sorts what the Source says by URI and leaves one want of each: the
// last word. Its memory is bounded: what does not fit goes to the Journal's
// scratch space in sorted runs, which are merged when read. A list that is
// sorted already, as most are, makes a single run.
type stage struct {
	journal Journal
	limit   int // wants kept in memory
	mem     []want
	bytes   int
	last    []string // the greatest URI of each run in the Journal
	docs    []docInfo
	since   resourcesync.Datetime // events before are done
	seen    map[string]bool       // as are these
	sorted  bool
	dirty   bool // the Journal's scratch space is not empty
	void    int  // changes from documents with lower numbers do not count
}

// docInfo is what is known of a document that wants came from, at its end.
type docInfo struct {
	dated   bool // an entry has a datetime
	rising  bool // somewhere times rise
	falling bool // somewhere times fall
	allNew  bool // no staged entry is done, whatever its time
}

const (
	// stageLimit is how many wants are held in memory, and stageBytes how much
	// they may weigh, before they are written to the Journal: an incremental
	// run, or a baseline of a small set, writes none.
	stageLimit = 20_000
	stageBytes = 8 << 20
)

func newStage(j Journal) *stage { return &stage{journal: j, limit: stageLimit} }

// addDoc begins a document and returns its number.
func (s *stage) addDoc() int {
	s.docs = append(s.docs, docInfo{})
	return len(s.docs) - 1
}

// reset begins anew.
func (s *stage) reset() {
	*s = stage{journal: s.journal, limit: s.limit, dirty: s.dirty}
}

// voidChanges forgets the changes taken so far: they are going to be read again.
func (s *stage) voidChanges() { s.void = len(s.docs) }

// empty reports whether nothing was taken.
func (s *stage) empty() bool { return len(s.mem) == 0 && len(s.last) == 0 }

// add takes one want.
func (s *stage) add(ctx context.Context, w want) error {
	s.mem = append(s.mem, w)
	s.sorted = false
	s.bytes += 160 + len(w.URI) + len(w.Type) + len(w.Refused) + 48*len(w.Hashes)
	if len(s.mem) >= s.limit || s.bytes >= stageBytes {
		return s.spill(ctx)
	}
	return nil
}

// spill moves what is in memory to the Journal.
func (s *stage) spill(ctx context.Context) error {
	if len(s.last) == 0 {
		s.dirty = true
		if err := s.journal.Stage(ctx, 0, nil); err != nil {
			return fmt.Errorf("sort entries: %w", err)
		}
	}
	s.sort()
	var rows []Staged
	for i := 0; i < len(s.mem); {
		uri := s.mem[i].URI
		row := Staged{URI: uri}
		g := group{stage: s}
		for ; i < len(s.mem) && s.mem[i].URI == uri; i++ {
			g.add(&s.mem[i])
		}
		for w := range g.all {
			row.Data = w.appendTo(row.Data)
		}
		rows = append(rows, row)
	}
	run := s.runFor(rows[0].URI)
	if err := s.journal.Stage(ctx, run+1, rows); err != nil {
		return fmt.Errorf("sort entries: %w", err)
	}
	s.last[run] = rows[len(rows)-1].URI
	s.mem, s.bytes = s.mem[:0], 0
	return nil
}

// runFor returns a run that can go on with uri.
func (s *stage) runFor(uri string) int {
	for i, last := range s.last {
		if last < uri {
			return i
		}
	}
	s.last = append(s.last, "")
	return len(s.last) - 1
}

func (s *stage) sort() {
	if !s.sorted {
		slices.SortStableFunc(s.mem, func(a, b want) int { return strings.Compare(a.URI, b.URI) })
		s.sorted = true
	}
}

// wants yields one want for each URI, in byte order of the URIs. Changes that
// are done already are left out.
func (s *stage) wants(ctx context.Context) iter.Seq2[want, error] {
	return func(yield func(want, error) bool) {
		s.sort()
		sources := []iter.Seq2[want, error]{sliceOf(s.mem)}
		for run := range s.last {
			sources = append(sources, s.run(ctx, run))
		}
		g := group{stage: s}
		uri := ""
		for w, err := range merge(sources, func(a, b *want) int { return strings.Compare(a.URI, b.URI) }) {
			if err != nil {
				yield(want{}, err)
				return
			}
			if w.URI != uri {
				if last, ok := g.last(); ok && !yield(last, nil) {
					return
				}
				g, uri = group{stage: s}, w.URI
			}
			g.add(&w)
		}
		if last, ok := g.last(); ok {
			yield(last, nil)
		}
	}
}

// clear gives the scratch space back.
func (s *stage) clear(ctx context.Context) error {
	if !s.dirty {
		return nil
	}
	s.reset()
	s.dirty = false
	return s.journal.Stage(ctx, 0, nil)
}

// run yields the wants of a run in the Journal.
func (s *stage) run(ctx context.Context, run int) iter.Seq2[want, error] {
	return func(yield func(want, error) bool) {
		for row, err := range s.journal.Staged(ctx, run+1) {
			for b := row.Data; err == nil && len(b) > 0; {
				var w want
				if w, b, err = decodeWant(row.URI, b); err == nil && !yield(w, nil) {
					return
				}
			}
			if err != nil {
				yield(want{}, fmt.Errorf("sort entries: %w", err))
				return
			}
		}
	}
}

// done reports whether the change w was processed in an earlier run.
func (s *stage) done(w *want) bool {
	if w.class != wantChange {
		return false
	}
	if s.docs[w.doc].allNew {
		return false
	}
	at := s.eventTime(w)
	if s.since.IsZero() || at.IsZero() {
		return false
	}
	return at.Compare(s.since) < 0 || len(s.seen) > 0 && s.seen[fingerprint(w, at)]
}

// eventTime is when the change w happened, as far as its document tells
// (RS-EM-07).
func (s *stage) eventTime(w *want) resourcesync.Datetime {
	if s.docs[w.doc].dated {
		return w.event
	}
	return w.mod
}

// later reports whether b is a later word than a of the same class.
func (s *stage) later(a, b *want) bool {
	if a.class == wantListed {
		// RS-RL-05: the later lastmod, else the later in document order.
		if c := b.Lastmod.Compare(a.Lastmod); c != 0 && !a.Lastmod.IsZero() && !b.Lastmod.IsZero() {
			return c > 0
		}
	} else if c := s.eventTime(b).Compare(s.eventTime(a)); c != 0 {
		return c > 0
	}
	if a.doc != b.doc {
		return b.doc > a.doc
	}
	if d := s.docs[a.doc]; d.falling && !d.rising { // RS-CHL-11: newest first
		return b.pos < a.pos
	}
	return b.pos > a.pos
}

func sliceOf[T any](ts []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, t := range ts {
			if !yield(t, nil) {
				return
			}
		}
	}
}

// merge yields what the sources yield, which are sorted, in order.
func merge[T any](sources []iter.Seq2[T, error], compare func(a, b *T) int) iter.Seq2[T, error] {
	if len(sources) == 1 {
		return sources[0]
	}
	return func(yield func(T, error) bool) {
		type head struct {
			t    T
			next func() (T, error, bool)
		}
		var heads []*head
		for _, src := range sources {
			next, stop := iter.Pull2(src)
			defer stop()
			h := &head{next: next}
			t, err, ok := next()
			if err != nil {
				yield(t, err)
				return
			}
			if h.t = t; ok {
				heads = append(heads, h)
			}
		}
		for len(heads) > 0 {
			least := 0
			for i := 1; i < len(heads); i++ {
				if compare(&heads[i].t, &heads[least].t) < 0 {
					least = i
				}
			}
			h := heads[least]
			if !yield(h.t, nil) {
				return
			}
			t, err, ok := h.next()
			if err != nil {
				yield(t, err)
				return
			}
			if h.t = t; !ok {
				heads = slices.Delete(heads, least, least+1)
			}
		}
	}
}
