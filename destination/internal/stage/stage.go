// Package stage sorts the entries of a Source's documents by URI, with bounded
// memory, and yields the entry that prevails for each resource.
package stage

import (
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/scratch"
	"lockstep/destination/journal"
	"lockstep/internal/extsort"
	"lockstep/resourcesync"
)

// A Stage sorts entries by URI and yields one for each URI: the entry that
// prevails. Its memory is bounded: see extsort. Documents are numbered by
// precedence, whatever order they are read in.
type Stage struct {
	Sorter    *extsort.Sorter
	Documents []*Document
	Since     resourcesync.Datetime            // changes before it were processed by an earlier run
	Seen      map[string]bool                  // fingerprints of further changes that were processed
	Until     resourcesync.Datetime            // later changes are left out; zero: no limit
	Versions  Versions                         // which versions to yield
	Future    func(resourcesync.Datetime) bool // reports times that do not order changes; nil: none

	Companions func(*desired.Resource) []string // the URIs of resources that are selected with one; nil: none

	room  scratch.Room
	main  *Writer      // used by Add; nil until then
	count atomic.Int64 // entries taken
	mu    sync.Mutex   // guards Documents while several documents are read
	void  int          // changes from documents with lower numbers are ignored
}

// A Document is the information about a staged document that is complete at its
// end.
type Document struct {
	Dated   bool   // an entry has a datetime
	Rising  bool   // some entry has a later time than the previous one
	Falling bool   // some entry has an earlier time than the previous one
	AllNew  bool   // no staged entry was processed by an earlier run, whatever its time
	Passed  bool   // an earlier run read it to its end: its entries without a time were processed
	Order   string // documents are compared by it first, then by number
}

// orderCurrent sorts current documents after archived ones.
const orderCurrent = "\xff"

// New returns an empty stage that sorts in the scratch space of the Journal.
func New(j journal.Journal) *Stage {
	return &Stage{room: scratch.RoomOf(j), Sorter: scratch.RoomOf(j).Sorter()}
}

// AddDocument adds a document and returns its number.
func (s *Stage) AddDocument() int {
	n, _ := s.AddOrdered("")
	return n
}

// AddOrdered adds a document whose entries come after those of documents of a
// lesser order, whatever their numbers. It is safe for concurrent use.
func (s *Stage) AddOrdered(order string) (int, *Document) {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := &Document{Order: order}
	s.Documents = append(s.Documents, info)
	return len(s.Documents) - 1, info
}

// MoveLast makes the existing documents come after those added from now on.
func (s *Stage) MoveLast() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.Documents {
		d.Order = orderCurrent + d.Order
	}
}

// Reset discards all entries and documents.
func (s *Stage) Reset() {
	_ = s.Sorter.Close() // its entries are discarded
	s.Sorter, s.main, s.Documents = s.room.Sorter(), nil, nil
	s.Since, s.Until, s.Seen, s.void = resourcesync.Datetime{}, resourcesync.Datetime{}, nil, 0
	s.count.Store(0)
}

// Close releases the scratch space.
func (s *Stage) Close(context.Context) error { return s.Sorter.Close() }

// DiscardChanges discards the changes staged so far, because they will be read
// again.
func (s *Stage) DiscardChanges() { s.void = len(s.Documents) }

// Empty reports whether no entry was added.
func (s *Stage) Empty() bool { return s.count.Load() == 0 }

// Add adds one entry.
func (s *Stage) Add(_ context.Context, w desired.Resource) error {
	if s.main == nil {
		s.main = s.Writer()
	}
	return s.main.Add(&w)
}

// A Writer adds entries to a stage. Several can be used at the same time, each by
// one goroutine.
type Writer struct {
	stage *Stage
	out   *extsort.Writer
	buf   []byte
}

// Writer returns a new Writer, which the caller releases.
func (s *Stage) Writer() *Writer { return &Writer{stage: s, out: s.Sorter.Writer()} }

// Release frees the memory of o, which must not be used afterwards.
func (o *Writer) Release() { o.stage.Sorter.Release(o.out) }

// Limits of one entry.
const (
	maxURIBytes   = 16 << 10 // longer than the names of any file system
	maxEntryBytes = 64 << 10 // encoded, without the URI
)

// Add adds one entry. From an entry that is too large it removes the links or the
// rest of the description.
func (o *Writer) Add(w *desired.Resource) error {
	if len(w.URI) > maxURIBytes {
		if w.Gone {
			return nil // the mirror cannot hold it
		}
		why := fmt.Sprintf("its URI has %d bytes, more than %d", len(w.URI), maxURIBytes)
		sum := sha256.Sum256([]byte(w.URI))
		w = &desired.Resource{URI: fmt.Sprintf("%.256s…%x", w.URI, sum[:8]), Change: w.Change, Length: -1, Refused: why, Rank: w.Rank}
	}
	o.buf = w.Append(o.buf[:0])
	if len(o.buf) > maxEntryBytes {
		bare := *w
		bare.Links, bare.Foreign, bare.Undescribed = nil, resourcesync.Foreign{}, true
		if o.buf = bare.Append(o.buf[:0]); len(o.buf) > maxEntryBytes {
			bare = desired.Resource{URI: w.URI, Gone: w.Gone, Change: w.Change, Lastmod: w.Lastmod, Length: -1, Rank: w.Rank,
				Refused: fmt.Sprintf("what is said of it has %d bytes, more than %d", len(o.buf), maxEntryBytes)}
			o.buf = bare.Append(o.buf[:0])
		}
	}
	if err := o.out.Add([]byte(w.URI), o.buf); err != nil {
		return fmt.Errorf("sort entries: %w", err)
	}
	o.stage.count.Add(1)
	if o.stage.Companions == nil {
		return nil
	}
	for _, uri := range o.stage.Companions(w) {
		if err := o.mark(uri); err != nil {
			return err
		}
	}
	return nil
}

// mark adds that a resource, if an entry states it, is a companion.
func (o *Writer) mark(uri string) error {
	if len(uri) > maxURIBytes {
		return nil
	}
	w := desired.Resource{Length: -1, Rank: desired.Rank{Class: desired.Marked}}
	o.buf = w.Append(o.buf[:0])
	if err := o.out.Add([]byte(uri), o.buf); err != nil {
		return fmt.Errorf("sort entries: %w", err)
	}
	return nil
}

// Resources yields the entry that prevails for each URI, in byte order of the URIs.
// It leaves out changes that an earlier run processed.
func (s *Stage) Resources(ctx context.Context) iter.Seq2[desired.Resource, error] {
	return func(yield func(desired.Resource, error) bool) {
		for c, err := range s.Chunks(ctx) {
			if err != nil {
				yield(desired.Resource{}, err)
				return
			}
			for w, err := range c.Resources {
				if !yield(w, err) || err != nil {
					return
				}
			}
		}
	}
}

// done reports whether an earlier run processed the change w.
func (s *Stage) done(w *desired.Resource) bool {
	if w.Class != desired.Changed {
		return false
	}
	if s.Documents[w.Doc].AllNew {
		return false
	}
	at := s.EventTime(w)
	if s.Since.IsZero() || at.IsZero() {
		return at.IsZero() && s.Documents[w.Doc].Passed
	}
	return at.Compare(s.Since) < 0 || len(s.Seen) > 0 && s.Seen[desired.Fingerprint(w, at)]
}

// beyond reports whether the change w happened after Until.
func (s *Stage) beyond(w *desired.Resource) bool {
	return !s.Until.IsZero() && s.EventTime(w).Compare(s.Until) > 0
}

// EventTime returns when the change w happened, or zero if its document does not
// state it (RS-EM-07).
func (s *Stage) EventTime(w *desired.Resource) resourcesync.Datetime {
	if s.Documents[w.Doc].Dated {
		return w.Event
	}
	return w.Modified
}

// later reports whether b prevails over a, which is of the same class.
func (s *Stage) later(a, b *desired.Resource) bool {
	if a.Class == desired.Listed {
		// RS-RL-05: the later lastmod, else the later in document order.
		if c := b.Lastmod.Compare(a.Lastmod); c != 0 && !a.Lastmod.IsZero() && !b.Lastmod.IsZero() {
			return c > 0
		}
	} else if at, bt := s.EventTime(a), s.EventTime(b); s.Future != nil && (s.Future(at) || s.Future(bt)) {
		// The Source corrected its clock between the two, so their times do not order them.
	} else if c := bt.Compare(at); c != 0 {
		return c > 0
	}
	if a.Doc != b.Doc {
		if c := strings.Compare(s.Documents[b.Doc].Order, s.Documents[a.Doc].Order); c != 0 {
			return c > 0
		}
		return b.Doc > a.Doc
	}
	if d := s.Documents[a.Doc]; d.Falling && !d.Rising { // RS-CHL-11: newest first
		return b.Pos < a.Pos
	}
	return b.Pos > a.Pos
}
