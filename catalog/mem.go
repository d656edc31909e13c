package catalog

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"lockstep/resourcesync"
)

// A Mem is a Catalog in memory. Its content is lost when the process ends.
type Mem struct {
	clock func() time.Time
	mu    sync.Mutex         // guards sets and all below it
	sets  map[string]*memSet // values are replaced, never modified
}

// A memSet is one state of a set. What it points to is never written again, so
// that a reader needs no lock.
type memSet struct {
	records   []*Record // ordered by URI
	changes   []Change
	last      Seq
	lastEvent int64 // microseconds
	floor     int64 // latest time assigned, by an event or a Mark
	marked    bool  // there was a Mark: changes are stored
	kept      Mark
	refreshed map[string]int64 // when each URI was, as [Catalog].Refreshed says, since kept
}

var _ Catalog = (*Mem)(nil)

// NewMem returns an empty catalog. It reads the time from clock; nil means
// time.Now.
func NewMem(clock func() time.Time) *Mem {
	if clock == nil {
		clock = time.Now
	}
	return &Mem{clock: clock, sets: make(map[string]*memSet)}
}

// Apply implements [Catalog].
func (m *Mem) Apply(ctx context.Context, set string, updates []Update) (Applied, error) {
	if err := Check(set, updates); err != nil {
		return Applied{}, err
	}
	if err := ctx.Err(); err != nil {
		return Applied{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.set(set)
	applied, changes, refreshed, now := s.plan(updates)
	event := FirstEvent(m.clock(), s.floor, len(changes))
	for i := range changes {
		c := &changes[i]
		s.last++
		s.floor, s.lastEvent = event+int64(i), event+int64(i)
		c.Seq, c.EventTime = s.last, time.UnixMicro(s.floor).UTC()
		if r := now[c.URI]; r != nil {
			r.Seq, r.EventTime = c.Seq, c.EventTime // the last change of the URI wins
		}
	}
	if s.marked {
		s.changes = append(s.changes, changes...)
		s.refresh(refreshed)
	}
	s.merge(now)
	m.sets[set] = &s
	return applied, nil
}

// refresh records that resources were refreshed, as an instant of its own.
func (s *memSet) refresh(uris []string) {
	if len(uris) == 0 {
		return
	}
	s.floor++
	if s.refreshed = maps.Clone(s.refreshed); s.refreshed == nil {
		s.refreshed = make(map[string]int64)
	}
	for _, uri := range uris {
		s.refreshed[uri] = s.floor
	}
}

// plan compares the updates with the current records. It returns the resulting
// changes, without numbers, the URIs that were refreshed, and the final record of
// every URI they touch; nil means deleted.
func (s *memSet) plan(updates []Update) (a Applied, changes []Change, refreshed []string, now map[string]*Record) {
	now = make(map[string]*Record, len(updates))
	for i := range updates {
		u := &updates[i]
		old, seen := now[u.URI]
		if !seen {
			old = s.get(u.URI)
		}
		if u.Deleted {
			if old == nil {
				a.Unchanged++
				continue
			}
			a.Deleted++
			now[u.URI] = nil
			changes = append(changes, Change{Record{URI: u.URI}, resourcesync.Deleted})
			continue
		}
		r := u.Record
		r.Lastmod = time.UnixMicro(r.Lastmod.UnixMicro()).UTC()
		r.Links = Settle(r.Links)
		now[u.URI] = &r
		switch {
		case old == nil:
			a.Created++
			changes = append(changes, Change{r, resourcesync.Created})
		case SameContent(old, &r):
			a.Unchanged++
			fresh := *old
			Refresh(&fresh, &u.Record)
			fresh.Lastmod = r.Lastmod
			if Restated(old, &fresh) {
				refreshed = append(refreshed, u.URI)
			}
			now[u.URI] = &fresh
		default:
			a.Updated++
			changes = append(changes, Change{r, resourcesync.Updated})
		}
	}
	return a, changes, refreshed, now
}

// merge updates the records from now.
func (s *memSet) merge(now map[string]*Record) {
	if len(now) == 0 {
		return
	}
	uris := make([]string, 0, len(now))
	for uri := range now {
		uris = append(uris, uri)
	}
	slices.Sort(uris)
	from := s.search(uris[0])
	// A reader's slice ends where s.records does: beyond it, appending in place is
	// safe.
	merged := s.records
	old := s.records[from:]
	if len(old) > 0 {
		merged = append(make([]*Record, 0, len(s.records)+len(uris)), s.records[:from]...)
	}
	for _, uri := range uris {
		for len(old) > 0 && old[0].URI < uri {
			merged, old = append(merged, old[0]), old[1:]
		}
		if len(old) > 0 && old[0].URI == uri {
			old = old[1:]
		}
		if r := now[uri]; r != nil {
			merged = append(merged, r)
		}
	}
	s.records = append(merged, old...)
}

// Resources implements [Catalog].
func (m *Mem) Resources(ctx context.Context, set string, r Range) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		s := m.state(set)
		for _, rec := range s.records[s.search(r.From):] {
			if err := ctx.Err(); err != nil {
				yield(Record{}, err)
				return
			}
			if r.To != "" && rec.URI >= r.To || !yield(rec.clone(), nil) {
				return
			}
		}
	}
}

// Split implements [Catalog].
func (m *Mem) Split(ctx context.Context, set string, n int) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if n < 1 {
			yield("", fmt.Errorf("split into runs of %d: want at least 1", n))
			return
		}
		s := m.state(set)
		for i := n; i < len(s.records); i += n {
			if err := ctx.Err(); err != nil {
				yield("", err)
				return
			}
			if !yield(s.records[i].URI, nil) {
				return
			}
		}
	}
}

// Changes implements [Catalog].
func (m *Mem) Changes(ctx context.Context, set string, after Seq) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		s := m.state(set)
		for i := s.after(after); i < len(s.changes); i++ {
			if err := ctx.Err(); err != nil {
				yield(Change{}, err)
				return
			}
			c := s.changes[i]
			if !yield(Change{Record: c.clone(), Change: c.Change}, nil) {
				return
			}
		}
	}
}

// Refreshed implements [Catalog].
func (m *Mem) Refreshed(ctx context.Context, set string, mark Mark) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		s := m.state(set)
		for _, uri := range slices.Sorted(maps.Keys(s.refreshed)) {
			if err := ctx.Err(); err != nil {
				yield("", err)
				return
			}
			if s.refreshed[uri] > mark.At.UnixMicro() && !yield(uri, nil) {
				return
			}
		}
	}
}

// Mark implements [Catalog].
func (m *Mem) Mark(ctx context.Context, set string) (Mark, error) {
	return m.MarkAfter(ctx, set, time.Time{})
}

// MarkAfter implements [LaterMarker].
func (m *Mem) MarkAfter(ctx context.Context, set string, at time.Time) (Mark, error) {
	if err := Check(set, nil); err != nil {
		return Mark{}, err
	}
	if err := ctx.Err(); err != nil {
		return Mark{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.set(set)
	s.floor = max(s.floor, m.clock().UnixMicro(), at.UnixMicro())
	mark := Mark{Seq: s.last, At: time.UnixMicro(s.floor).UTC()}
	if !s.marked {
		s.marked, s.kept = true, mark
	}
	m.sets[set] = &s
	return mark, nil
}

// Forget implements [Catalog].
func (m *Mem) Forget(ctx context.Context, set string, mark Mark) error {
	if err := Check(set, nil); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.set(set)
	at := mark.At.UnixMicro()
	switch {
	case s.marked && mark.Seq <= s.kept.Seq:
		return nil
	case !s.marked || mark.Seq > s.last || at > s.floor:
		return fmt.Errorf("forget up to change %d: %w", mark.Seq, ErrMark)
	}
	i := s.after(mark.Seq)
	if s.changes[i-1].EventTime.UnixMicro() > at || i < len(s.changes) && s.changes[i].EventTime.UnixMicro() <= at {
		return fmt.Errorf("forget up to change %d at %s: %w", mark.Seq, mark.At, ErrMark)
	}
	s.changes = slices.Clone(s.changes[i:])
	s.kept = Mark{Seq: mark.Seq, At: time.UnixMicro(at).UTC()}
	s.refreshed = maps.Clone(s.refreshed)
	maps.DeleteFunc(s.refreshed, func(_ string, when int64) bool { return when <= at })
	m.sets[set] = &s
	return nil
}

// Status implements [Catalog].
func (m *Mem) Status(ctx context.Context, set string) (Status, error) {
	if err := ctx.Err(); err != nil {
		return Status{}, err
	}
	s := m.state(set)
	st := Status{Resources: int64(len(s.records)), Last: s.last, Kept: s.kept}
	if s.last > 0 {
		st.LastTime = time.UnixMicro(s.lastEvent).UTC()
	}
	return st, nil
}

// set returns a copy of the set's state, to be modified and stored in its
// place. The caller holds m.mu.
func (m *Mem) set(name string) memSet {
	if s := m.sets[name]; s != nil {
		return *s
	}
	return memSet{floor: time.Time{}.UnixMicro()}
}

func (m *Mem) state(name string) memSet {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.set(name)
}

// search returns the index of the first record whose URI is not before uri.
func (s *memSet) search(uri string) int {
	i, _ := slices.BinarySearchFunc(s.records, uri, func(r *Record, uri string) int { return strings.Compare(r.URI, uri) })
	return i
}

func (s *memSet) get(uri string) *Record {
	if i := s.search(uri); i < len(s.records) && s.records[i].URI == uri {
		return s.records[i]
	}
	return nil
}

// after returns the index of the first change numbered above seq.
func (s *memSet) after(seq Seq) int {
	i, _ := slices.BinarySearchFunc(s.changes, seq+1, func(c Change, seq Seq) int { return int(c.Seq - seq) })
	return i
}

func (r *Record) clone() Record {
	c := *r
	c.Hashes = slices.Clone(r.Hashes)
	c.Links = slices.Clone(r.Links)
	return c
}
