// Package reading reads lists part by part, as they are looked at: the parts of an
// index, the documents of a feed, the pages of a repository, or the rows of a mirror.
// What was read stays in a temporary file.
package reading

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/cmd/lockstep/internal/explorer/figures"
	"lockstep/cmd/lockstep/internal/explorer/spool"
)

// An Address is where a part of a list is.
type Address struct {
	URI   string
	From  time.Time // of a part of a list of changes; zero: not stated
	Until time.Time
}

// Of says what the rows of a list are.
type Of string

// What rows are.
const (
	Resources   Of = "resources"
	Changes     Of = "changes"     // oldest first
	Documents   Of = "documents"   // that can be looked at in turn
	Packages    Of = "packages"    // likewise
	Members     Of = "members"     // of a package
	Lines       Of = "lines"       // of a document
	Versions    Of = "versions"    // of a resource
	Differences Of = "differences" // between two states
)

// A Result is what was read besides rows.
type Result struct {
	Facts    []spool.Fact // about the document
	Links    []spool.Link // at its root
	Title    string       // what the document is, as "Resource List"
	Of       Of           // what its rows are
	Warnings []string     // deviations from the standard that were accepted

	Index bool      // it has no rows: Next are its parts
	Next  []Address // of an index all parts; otherwise the part after this one, if there is one
	Total int64     // how many rows all parts have together; 0: not stated
}

// An Origin brings the rows of a list.
type Origin interface {
	// Read reads the part at an address, and adds its rows in order. It stops at
	// the first error, of add or its own, and may be called concurrently.
	Read(ctx context.Context, address string, add func(*spool.Row) error) (Result, error)
}

// Start runs a task in the background, until it ends or its context does.
type Start func(task func(context.Context))

// A List is a list that is read part by part. It is safe for concurrent use.
type List struct {
	ID   int    // its number in its place
	Name string // as a capability: "resourcelist"
	URI  string

	origin Origin
	start  Start
	dir    string // for the temporary file

	mu      sync.Mutex // guards what follows
	spool   *spool.Spool
	parts   []*part
	opened  bool // the document at URI was read
	root    Result
	summary figures.Summary
	all     bool // all parts are being read
	closed  bool
	changed int // counts changes of the state
}

// A part is one part of a List.
type part struct {
	Address
	segment *spool.Segment
	err     error
	busy    chan struct{} // closed when reading it has ended; nil: it is not being read
	rows    atomic.Int64  // read so far
	last    bool          // no part follows, although it did not come from an index
	index   bool          // it was read, and its parts have taken its place
}

// New returns a List whose first document is at uri.
func New(name, uri string, origin Origin, start Start, dir string) *List {
	return &List{Name: name, URI: uri, origin: origin, start: start, dir: dir, parts: []*part{{Address: Address{URI: uri}}}}
}

// Close removes what was read. Nothing is read any more, except a part that is being
// read.
func (l *List) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.spool == nil {
		return nil
	}
	return l.spool.Close()
}

// Open reads the document at the List's URI, unless it was read. If ctx ends earlier,
// reading continues in the background.
func (l *List) Open(ctx context.Context) error {
	l.mu.Lock()
	first := l.parts[0]
	if l.opened {
		l.mu.Unlock()
		return nil
	}
	l.mu.Unlock()
	return l.load(ctx, first)
}

// Load reads part n, counted from 0, unless it was read; a negative n counts from the
// end. Like Open it continues in the background if ctx ends. A part that does not exist
// is none that could fail.
func (l *List) Load(ctx context.Context, n int) error {
	if err := l.Open(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	if n < 0 {
		n += len(l.parts)
	}
	if n < 0 || n >= len(l.parts) {
		l.mu.Unlock()
		return nil
	}
	p := l.parts[n]
	l.mu.Unlock()
	return l.load(ctx, p)
}

// LoadAll reads all parts in the background, one after the other. A part that could
// not be read does not end it, unless further parts are only known from that one.
func (l *List) LoadAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all {
		return
	}
	l.all = true
	for _, p := range l.parts {
		if p.busy == nil {
			p.err = nil // another attempt
		}
	}
	l.start(func(ctx context.Context) {
		defer l.finishAll()
		if l.Open(ctx) != nil {
			return
		}
		for p := l.unread(); p != nil && ctx.Err() == nil; p = l.unread() {
			_ = l.load(ctx, p) // the state shows it
		}
	})
}

// Wait reads all parts before it returns, unless ctx ends earlier.
func (l *List) Wait(ctx context.Context) error {
	if err := l.Open(ctx); err != nil {
		return err
	}
	var failed error
	for p := l.unread(); p != nil && ctx.Err() == nil; p = l.unread() {
		if err := l.load(ctx, p); err != nil && failed == nil {
			failed = err
		}
	}
	return errors.Join(failed, context.Cause(ctx))
}

func (l *List) finishAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = false
	l.changed++
}

// unread returns the first part that was neither read nor attempted.
func (l *List) unread() *part {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.parts {
		if p.segment == nil && p.err == nil && !l.closed {
			return p
		}
	}
	return nil
}

// load reads a part in the background and waits for it as long as ctx allows.
func (l *List) load(ctx context.Context, p *part) error {
	l.mu.Lock()
	if p.segment != nil || p.index { // also by another goroutine, since the caller has looked
		l.mu.Unlock()
		return nil
	}
	if p.busy == nil {
		p.busy, p.err = make(chan struct{}), nil
		p.rows.Store(0)
		l.start(func(ctx context.Context) { l.read(ctx, p) })
	}
	busy := p.busy
	l.mu.Unlock()
	select {
	case <-busy:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return p.err
}

// read reads a part.
func (l *List) read(ctx context.Context, p *part) {
	var result Result
	var summary figures.Summary
	var segment *spool.Segment
	s, err := l.room()
	if err == nil {
		segment, err = s.Write(func(add func(*spool.Row) error) error {
			var err error
			result, err = l.origin.Read(ctx, p.URI, func(r *spool.Row) error {
				summary.Add(r)
				p.rows.Add(1)
				return add(r)
			})
			return err
		})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	close(p.busy)
	p.busy = nil
	l.changed++
	if err != nil {
		p.err = err
		return
	}
	if !l.opened {
		l.opened, l.root = true, result
	}
	if result.Index {
		p.index = true
		l.replace(p, result.Next)
		return
	}
	p.segment = segment
	p.last = len(result.Next) == 0
	l.summary.Merge(&summary)
	if len(result.Next) > 0 && l.parts[len(l.parts)-1] == p && !l.knows(result.Next[0].URI) {
		l.parts = append(l.parts, &part{Address: result.Next[0]})
	}
}

// knows reports whether a part is at uri: a chain that leads back to itself ends.
func (l *List) knows(uri string) bool {
	return slices.ContainsFunc(l.parts, func(p *part) bool { return p.URI == uri })
}

// maxParts is how many parts a list may have: more than any Source has, and few enough
// for the memory. An index within an index adds parts.
const maxParts = 200_000

// replace puts the parts that an index names in its place.
func (l *List) replace(index *part, next []Address) {
	at := slices.Index(l.parts, index)
	known := make(map[string]bool, len(l.parts))
	for _, p := range l.parts {
		known[p.URI] = true
	}
	var parts []*part
	for _, a := range next {
		if !known[a.URI] && len(l.parts)+len(parts) < maxParts {
			known[a.URI] = true
			parts = append(parts, &part{Address: a})
		}
	}
	l.parts = slices.Concat(l.parts[:at], parts, l.parts[at+1:])
	if len(l.parts) == 0 { // an index without parts
		index.segment, index.last = &spool.Segment{}, true
		l.parts = []*part{index}
	}
}

var errClosed = errors.New("the explorer has moved on to another address")

// room returns the temporary file.
func (l *List) room() (*spool.Spool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errClosed
	}
	if l.spool == nil {
		s, err := spool.New(l.dir)
		if err != nil {
			return nil, err
		}
		l.spool = s
	}
	return l.spool, nil
}
