package destination

import (
	"bytes"
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

// A stage sorts what the Source says by URI and leaves one want of each: the
// last word. Its memory is bounded: see extsort. Documents are numbered in the
// order in which their entries count, whatever order they are read in.
type stage struct {
	room   scratch.Room
	sorter *extsort.Sorter
	main   *stageWriter // of add; nil: not used yet
	count  atomic.Int64 // wants taken
	mu     sync.Mutex   // guards docs while several documents are read
	docs   []*docInfo
	since  resourcesync.Datetime            // events before are done
	until  resourcesync.Datetime            // events after it are left out; zero: none is
	seen   map[string]bool                  // as are these
	turns  turns                            // versions other than the last
	future func(resourcesync.Datetime) bool // reports times by which changes are not ordered; nil: none
	void   int                              // changes from documents with lower numbers do not count
}

// docInfo is what is known of a document that wants came from, at its end.
type docInfo struct {
	dated   bool   // an entry has a datetime
	rising  bool   // somewhere times rise
	falling bool   // somewhere times fall
	allNew  bool   // no staged entry is done, whatever its time
	passed  bool   // it lies before what was read last time: entries without a time are done
	order   string // of Resource Lists: theirs are compared by this first
}

// orderCurrent puts the documents that are current behind those of archives.
const orderCurrent = "\xff"

// newStage returns an empty stage with its scratch space where the Journal has
// room.
func newStage(j journal.Journal) *stage {
	return &stage{room: scratch.RoomOf(j), sorter: scratch.RoomOf(j).Sorter()}
}

// addDoc begins a document and returns its number.
func (s *stage) addDoc() int {
	n, _ := s.addOrdered("")
	return n
}

// addOrdered begins a document whose entries come after those of documents of
// a lesser order, whatever their numbers are. Several can do so at the same
// time, until wants are asked for.
func (s *stage) addOrdered(order string) (int, *docInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := &docInfo{order: order}
	s.docs = append(s.docs, info)
	return len(s.docs) - 1, info
}

// lastly has the documents so far come after those that are read from now on.
func (s *stage) lastly() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.docs {
		d.order = orderCurrent + d.order
	}
}

// reset discards what is staged.
func (s *stage) reset() {
	_ = s.sorter.Close() // nothing in it counts any more
	s.sorter, s.main, s.docs = s.room.Sorter(), nil, nil
	s.since, s.until, s.seen, s.void = resourcesync.Datetime{}, resourcesync.Datetime{}, nil, 0
	s.count.Store(0)
}

// clear gives the scratch space back.
func (s *stage) clear(context.Context) error { return s.sorter.Close() }

// voidChanges forgets the changes taken so far: they are going to be read again.
func (s *stage) voidChanges() { s.void = len(s.docs) }

// empty reports whether nothing was taken.
func (s *stage) empty() bool { return s.count.Load() == 0 }

// add takes one want.
func (s *stage) add(_ context.Context, w desired.Resource) error {
	if s.main == nil {
		s.main = s.writer()
	}
	return s.main.add(&w)
}

// A stageWriter takes wants; several can do so at the same time.
type stageWriter struct {
	stage *stage
	out   *extsort.Writer
	buf   []byte
}

func (s *stage) writer() *stageWriter { return &stageWriter{stage: s, out: s.sorter.Writer()} }

func (o *stageWriter) release() { o.stage.sorter.Release(o.out) }

// What one entry may take of what memory there is to sort in.
const (
	maxURIBytes   = 16 << 10 // no file system has names for more
	maxEntryBytes = 64 << 10 // all else, encoded
)

func (o *stageWriter) add(w *desired.Resource) error {
	if len(w.URI) > maxURIBytes {
		if w.Gone {
			return nil // it was never held
		}
		why := fmt.Sprintf("its URI has %d bytes, more than %d", len(w.URI), maxURIBytes)
		sum := sha256.Sum256([]byte(w.URI))
		w = &desired.Resource{URI: fmt.Sprintf("%.256s…%x", w.URI, sum[:8]), Change: w.Change, Length: -1, Refused: why, Rank: w.Rank}
	}
	o.buf = w.Append(o.buf[:0])
	if len(o.buf) > maxEntryBytes {
		bare := *w
		bare.Links = nil // only ways to its content
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
	return nil
}

// wants yields one want for each URI, in byte order of the URIs. Changes that
// are done already are left out.
func (s *stage) wants(ctx context.Context) iter.Seq2[desired.Resource, error] {
	return func(yield func(desired.Resource, error) bool) {
		for c, err := range s.chunks(ctx) {
			if err != nil {
				yield(desired.Resource{}, err)
				return
			}
			for w, err := range c.wants {
				if !yield(w, err) || err != nil {
					return
				}
			}
		}
	}
}

const (
	// chunkURIs and chunkBytes bound a chunk: what is planned at a time.
	chunkURIs  = 1000
	chunkBytes = 256 << 10

	// maxTold is after how many wants of one URI they are reduced to what is of
	// use.
	maxTold = 1000
)

// A chunk is the wants of some URIs, encoded: all there are of each.
type chunk struct {
	stage *stage
	from  string // all URIs from here
	to    string // up to here, are of this chunk; "": to the end
	data  []byte
	refs  []chunkRef // in order of the keys
}

// A chunkRef is a key and a value in a chunk.
type chunkRef struct{ at, key, value uint32 }

// chunks cuts what is staged into chunks: all URIs there can be, ascending.
// What is yielded is the caller's. Without wants there is one empty chunk.
func (s *stage) chunks(ctx context.Context) iter.Seq2[*chunk, error] {
	return func(yield func(*chunk, error) bool) {
		c := &chunk{stage: s}
		uris, told := 0, 0
		for p, err := range s.sorter.Sorted(ctx) {
			if err == nil && uris%64 == 0 {
				err = ctx.Err()
			}
			if err != nil {
				yield(nil, fmt.Errorf("sort entries: %w", err))
				return
			}
			if len(c.refs) == 0 || !bytes.Equal(c.key(len(c.refs)-1), p.Key) {
				if uris == chunkURIs || len(c.data) > chunkBytes {
					next := &chunk{stage: s, from: string(p.Key)}
					c.to = next.from
					if !yield(c, nil) {
						return
					}
					c, uris = next, 0
				}
				uris, told = uris+1, 0
			}
			c.add(p.Key, p.Value)
			if told++; told == maxTold {
				told = 0
				if err := c.reduce(); err != nil {
					yield(nil, err)
					return
				}
			}
		}
		yield(c, nil)
	}
}

func (c *chunk) add(key, value []byte) {
	c.refs = append(c.refs, chunkRef{uint32(len(c.data)), uint32(len(key)), uint32(len(value))})
	c.data = append(append(c.data, key...), value...)
}

func (c *chunk) key(i int) []byte { return c.data[c.refs[i].at : c.refs[i].at+c.refs[i].key] }

// decode returns the i-th want. It holds on to nothing of the chunk.
func (c *chunk) decode(i int) (desired.Resource, error) {
	r := c.refs[i]
	own := string(c.data[r.at : r.at+r.key+r.value])
	w, _, err := desired.Decode(own[:r.key], own[r.key:])
	if err != nil {
		return desired.Resource{}, fmt.Errorf("sort entries: %w", err)
	}
	return w, nil
}

// group returns what was said of the i-th want's URI, and where the next URI
// begins.
func (c *chunk) group(i int) (g group, next int, err error) {
	g.stage = c.stage
	for next = i; next < len(c.refs) && bytes.Equal(c.key(next), c.key(i)); next++ {
		w, err := c.decode(next)
		if err != nil {
			return g, next, err
		}
		g.add(&w)
	}
	return g, next, nil
}

// reduce leaves of the last URI's wants those that are of use.
func (c *chunk) reduce() error {
	first := len(c.refs) - 1
	for first > 0 && bytes.Equal(c.key(first-1), c.key(first)) {
		first--
	}
	g, _, err := c.group(first)
	if err != nil {
		return err
	}
	key := bytes.Clone(c.key(first))
	c.data, c.refs = c.data[:c.refs[first].at], c.refs[:first]
	for w := range g.all {
		c.add(key, w.Append(nil))
	}
	return nil
}

// wants yields the last word on each URI of the chunk.
func (c *chunk) wants(yield func(desired.Resource, error) bool) {
	for i := 0; i < len(c.refs); {
		g, next, err := c.group(i)
		if err != nil {
			yield(desired.Resource{}, err)
			return
		}
		if last, ok := g.last(); ok && !yield(last, nil) {
			return
		}
		i = next
	}
}

// done reports whether the change w was processed in an earlier run.
func (s *stage) done(w *desired.Resource) bool {
	if w.Class != desired.Changed {
		return false
	}
	if s.docs[w.Doc].allNew {
		return false
	}
	at := s.eventTime(w)
	if s.since.IsZero() || at.IsZero() {
		return at.IsZero() && s.docs[w.Doc].passed
	}
	return at.Compare(s.since) < 0 || len(s.seen) > 0 && s.seen[desired.Fingerprint(w, at)]
}

// beyond reports whether the change w happened after all that is asked for.
func (s *stage) beyond(w *desired.Resource) bool {
	return !s.until.IsZero() && s.eventTime(w).Compare(s.until) > 0
}

// eventTime is when the change w happened, as far as its document states it
// (RS-EM-07).
func (s *stage) eventTime(w *desired.Resource) resourcesync.Datetime {
	if s.docs[w.Doc].dated {
		return w.Event
	}
	return w.Modified
}

// later reports whether b is a later word than a of the same class.
func (s *stage) later(a, b *desired.Resource) bool {
	if a.Class == desired.Listed {
		// RS-RL-05: the later lastmod, else the later in document order.
		if c := b.Lastmod.Compare(a.Lastmod); c != 0 && !a.Lastmod.IsZero() && !b.Lastmod.IsZero() {
			return c > 0
		}
	} else if at, bt := s.eventTime(a), s.eventTime(b); s.future != nil && (s.future(at) || s.future(bt)) {
		// Before or after them the clock was corrected.
	} else if c := bt.Compare(at); c != 0 {
		return c > 0
	}
	if a.Doc != b.Doc {
		if c := strings.Compare(s.docs[b.Doc].order, s.docs[a.Doc].order); c != 0 {
			return c > 0
		}
		return b.Doc > a.Doc
	}
	if d := s.docs[a.Doc]; d.falling && !d.rising { // RS-CHL-11: newest first
		return b.Pos < a.Pos
	}
	return b.Pos > a.Pos
}
