package entries

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/known"
	"lockstep/destination/internal/prefetch"
	"lockstep/destination/internal/saved"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// MaxReaders limits the parts of an index that are read concurrently: each takes a
// connection and memory for sorting.
const MaxReaders = 4

// A Snapshot is what a Resource List states about itself.
type Snapshot struct {
	At         resourcesync.Datetime // the earliest of all its documents
	Latest     resourcesync.Datetime // the latest of all its documents
	inferred   bool                  // At is the time from which on its server has the list, which may have been made long before
	newest     resourcesync.Datetime // lastmod of its entries, in that case: the list is not older
	Validators saved.Validators
	Sitemap    bool // a plain Sitemap, which does not state what it covers
	Dump       bool // a Resource Dump: the manifests of its packages are the parts
	undated    bool // a Resource Dump, and neither it nor its entries state a time
	Complete   bool // all its documents were read
	skipped    bool // entries may be missing: one has no readable loc, or a part contradicts its index
	Index      bool
	begun      bool                        // its own document could be opened
	Parts      map[string]saved.Validators // of an index, unless it has too many parts
	entries    int64
}

// Whole reports whether the list names every resource of the set, so that resources
// it does not name are deleted.
func (s *Snapshot) Whole() bool { return s.Complete && !s.skipped }

// Since returns the instant from which on changes may be missing in the list; zero: it is
// unknown.
func (s *Snapshot) Since() resourcesync.Datetime {
	if s.inferred && s.newest.Compare(s.At) < 0 {
		return s.newest
	}
	return s.At
}

// Doubtful reports whether changes between the list and those of c may be missing, because
// the list does not state its instant.
func (s *Snapshot) Doubtful(c *Chain) bool {
	if c.Lists == 0 || s.Sitemap || !s.begun {
		return false
	}
	return s.At.IsZero() || s.inferred && c.Whole() && c.From.Compare(s.Since()) > 0
}

// A listReading is one pass over a Resource List and the documents below it.
type listReading struct {
	*Reader
	again bool     // second pass: a part that does not fit its index no longer causes a retry
	snap  Snapshot // guarded by mu
}

// A listPart is a part of an index, or a package of a dump.
type listPart struct {
	uri   string
	pkg   int                   // number of the package; zero: a document
	at    resourcesync.Datetime // as the index states
	order string                // of its entries relative to those of other parts

	lastmod resourcesync.Datetime // of the document, as the index states
}

// ReadList stages the entries of the Resource List, or index, at uri. It passes
// documents that cannot be read to r.Fail; the snapshot is then incomplete.
func (r *Reader) ReadList(ctx context.Context, uri string) (Snapshot, error) {
	for again := false; ; again = true {
		r.Restart()
		r.named = 0
		r.Stage.Reset()
		r.Known.Restart()
		l := &listReading{Reader: r, again: again}
		l.snap.Complete = true
		n := r.Stage.AddDocument()
		end := r.Beside.start(ctx)
		parts, err := l.read(ctx, listPart{uri: uri}, 0, n)
		if err == nil {
			err = l.readParts(ctx, parts, 1)
		}
		if err = end(err); !errors.Is(err, errAgain) {
			return l.snap, err
		}
	}
}

// partsAtOnce is the number of parts of an index that are read before the documents
// below them. It is small, so that a list is reached before too many indexes count
// as leading to none.
const partsAtOnce = 100

// readParts reads parts of an index, several concurrently, and then the documents
// below them. The result does not depend on the order.
func (l *listReading) readParts(ctx context.Context, parts []listPart, depth int) error {
	for some := range slices.Chunk(parts, partsAtOnce) {
		if l.Ended() {
			return nil
		}
		if err := l.readSome(ctx, some, depth); err != nil {
			return err
		}
	}
	return nil
}

func (l *listReading) readSome(ctx context.Context, parts []listPart, depth int) error {
	below := make([][]listPart, len(parts))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(min(l.Jobs, MaxReaders))
	for i := range parts {
		if gctx.Err() != nil {
			break
		}
		n, _ := l.Stage.AddOrdered(parts[i].order)
		g.Go(func() (err error) {
			below[i], err = l.read(gctx, parts[i], depth, n)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	for _, parts := range below {
		if err := l.readParts(ctx, parts, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// read reads one document, the n-th, and returns the parts if it is an index.
func (l *listReading) read(ctx context.Context, p listPart, depth, n int) ([]listPart, error) {
	nested := depth
	if p.pkg > 0 {
		nested-- // its dump is the document below the indexes
	}
	if err := l.Enter(p.uri, nested); err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.Fail(p.uri, err)
		l.snap.Complete = false
		return nil, nil
	}
	if p.pkg > 0 {
		return nil, l.readManifest(ctx, p, depth, n)
	}
	part, v, err := l.proven(ctx, p, depth)
	if err != nil {
		return nil, err
	}
	doc, err := l.Open(ctx, p.uri, v)
	if part != nil && errors.Is(err, discover.ErrNotModified) {
		return nil, l.stageRows(ctx, p, part, n)
	}
	if err != nil {
		return nil, l.broken(ctx, p.uri, err, &l.snap.Complete, depth, l.again)
	}
	defer doc.Close()
	err = Expect(doc, l.wanted(doc, depth))
	if err == nil && depth == 0 {
		err = l.keepsKind(doc)
	}
	if err == nil {
		err = l.Bound(doc, depth)
	}
	if err != nil {
		return nil, l.broken(ctx, p.uri, err, &l.snap.Complete, depth, l.again)
	}
	if err := l.begin(doc, p, depth); err != nil {
		return nil, err
	}
	if l.snap.Dump && !doc.Header.Index {
		return l.packagesIn(ctx, doc, p, depth)
	}
	if doc.Header.Index {
		parts, err := l.partsOf(doc, p.order)
		if err != nil {
			err = l.broken(ctx, p.uri, err, &l.snap.Complete, depth, l.again)
		}
		return parts, err
	}
	fetched := l.Prefetch.Part()
	var stated known.Digest
	entries, err := l.stageEntries(doc, n, fetched, &stated)
	if perr := fetched.End(depth > 0); err == nil && perr != nil {
		err = &content.LocalError{Err: perr}
	}
	if err != nil {
		if local := (*content.LocalError)(nil); errors.As(err, &local) {
			return nil, local.Err
		}
		return nil, l.broken(ctx, p.uri, err, &l.snap.Complete, depth, l.again)
	}
	doubt := cmp.Or(doc.Unlocated(), l.unstated(doc, depth))
	l.skip(doc.URI, doubt)
	l.mu.Lock()
	l.snap.entries += entries
	if depth > 0 && len(l.snap.Parts) <= maxPolledParts {
		l.snap.Parts[p.uri] = saved.Validators{ETag: doc.ETag, Modified: doc.LastModified}
	}
	l.mu.Unlock()
	l.ReportWarnings(doc)
	if l.Known != nil && depth > 0 && doubt == nil {
		l.record(p, doc, &stated)
	}
	return nil, nil
}

// Kinds of documents that a set is compared with.
const (
	listSitemap    = "sitemap"      // a plain Sitemap, which does not state what it covers
	listOfStandard = "resourcesync" // a Resource List, a Resource Dump, or an index of these
)

// Kind returns whether the list was a plain Sitemap, in the form in which a set
// stores it.
func (s *Snapshot) Kind() string {
	if s.Sitemap {
		return listSitemap
	}
	return listOfStandard
}

// keepsKind checks that the list of an existing mirror is of the same kind as
// before: a plain Sitemap in place of a Resource List may list other pages.
func (l *listReading) keepsKind(doc *discover.Document) error {
	now := (&Snapshot{Sitemap: doc.Header.Capability == ""}).Kind()
	was := l.Set.ListKind
	if was == "" || was == now || l.Baseline || l.Set.Lists != doc.URI {
		return nil
	}
	names := map[string]string{listSitemap: "a plain Sitemap", listOfStandard: "a Resource List or Resource Dump"}
	return &discover.KindError{Address: doc.URI, Was: names[was], Now: names[now]}
}

// unstated returns an error for a part that does not state its kind, as its index does:
// a plain Sitemap does not state what it covers.
func (l *listReading) unstated(doc *discover.Document, depth int) error {
	if depth == 0 || doc.Header.Capability != "" || l.snap.Sitemap {
		return nil
	}
	return fmt.Errorf("read %s: it is a plain Sitemap, but its index is a Resource List: the reading is incomplete", fetch.Printable(doc.URI))
}

// begin records what a document states about itself.
func (l *listReading) begin(doc *discover.Document, p listPart, depth int) error {
	if depth > 0 {
		return l.beginPart(p, doc.Header.At)
	}
	h, s := &doc.Header, &l.snap
	at := h.At
	if at.IsZero() && h.Capability != "" && !doc.Modified.IsZero() {
		at = resourcesync.NewDatetime(doc.Modified) // RS-MD-13
	}
	inferred := h.At.IsZero() && !at.IsZero()
	l.mu.Lock()
	defer l.mu.Unlock()
	s.At, s.Latest, s.Validators, s.Sitemap = at, at, saved.Validators{ETag: doc.ETag, Modified: doc.LastModified}, h.Capability == ""
	s.inferred, s.newest = inferred, resourcesync.Datetime{}
	s.Index, s.Parts, s.begun = h.Index, map[string]saved.Validators{}, true
	return nil
}

// beginPart records the at that a part of an index states. A part that is older than its
// index says may list what was true before, and not list what is true now (RS-IDX-07).
func (l *listReading) beginPart(p listPart, at resourcesync.Datetime) error {
	if at.IsZero() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.snap
	if !p.at.IsZero() && at.Compare(p.at) < 0 {
		if !l.again {
			return errAgain
		}
		s.skipped = true
		l.Fail(p.uri, fmt.Errorf("read %s: it is of %s, and its index says %s: the reading is incomplete", fetch.Printable(p.uri), at, p.at))
	}
	if at.Compare(s.At) < 0 {
		s.At = at // RS-RLI-04
	}
	if at.Compare(s.Latest) > 0 {
		s.Latest = at
	}
	return nil
}

// skip records that entries of a document have no readable loc, unless err is nil.
func (l *listReading) skip(uri string, err error) {
	if err == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.snap.skipped = true
	l.Fail(uri, err)
}

// partsOf reads an index to its end and closes it, because reading its parts may
// take long.
func (l *listReading) partsOf(doc *discover.Document, order string) ([]listPart, error) {
	defer doc.Close()
	var parts []listPart
	var dumps []resourcesync.Entry
	for e, err := range doc.Entries() {
		if err == nil {
			err = l.CountPart(doc.URI)
		}
		if err != nil {
			return parts, err
		}
		parts = append(parts, listPart{uri: e.Loc, at: e.At, lastmod: e.Lastmod, order: placeOf(order, len(parts))})
		if l.snap.Dump {
			dumps = append(dumps, resourcesync.Entry{Loc: e.Loc, Lastmod: e.Lastmod, Metadata: resourcesync.Metadata{At: e.At}})
		}
	}
	l.ReportWarnings(doc)
	l.skip(doc.URI, doc.Unlocated())
	if i, archive := NewestDump(&doc.Header, dumps); archive {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.Warn(doc.URI, fmt.Sprintf("read %s: its dumps are of different times; only the newest is used", fetch.Printable(doc.URI)))
		return parts[i : i+1], nil
	}
	return parts, nil
}

// placeOf returns the order of the i-th part of an index whose own order is order.
func placeOf(order string, i int) string {
	return string(binary.BigEndian.AppendUint32([]byte(order), uint32(i)))
}

// stageEntries stages the entries of the n-th document, and adds them to part, and to
// stated, if what parts state is recorded.
func (l *listReading) stageEntries(doc *discover.Document, n int, part *prefetch.Part, stated *known.Digest) (int64, error) {
	out := l.Stage.Writer()
	defer out.Release()
	var pos int64
	var w desired.Resource
	var newest resourcesync.Datetime
	for e, err := range doc.Entries() {
		if err != nil {
			return pos, err
		}
		w = l.Resource(&e)
		if e.Lastmod.Compare(newest) > 0 {
			newest = e.Lastmod
		}
		if l.Known != nil {
			stated.Add(&w)
		}
		w.Rank = desired.Rank{Class: desired.Listed, Doc: n, Pos: pos}
		pos++
		l.Beside.listed()
		if !concerns(l.Reader, w.URI) {
			continue
		}
		w.Companion = l.Only != nil // the run has selected it, and the resource that names it may not be staged again
		if err := errors.Join(out.Add(&w), part.Add(&w)); err != nil {
			return pos, &content.LocalError{Err: err}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if newest.Compare(l.snap.newest) > 0 {
		l.snap.newest = newest
	}
	return pos, nil
}

// concerns reports whether an entry of a list, or a change, is to be staged, and records
// that its URI was found.
func concerns(r *Reader, uri string) bool {
	if r.Only == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !hasKey(r.Only, uri) {
		return false
	}
	r.Only[uri] = true
	return true
}

// StageList stages a list. The error for a list that cannot be read is an
// UnreadError.
func (r *Reader) StageList(ctx context.Context, b *Archived) (Snapshot, error) {
	var first error
	fail := r.Fail
	r.Fail = func(_ string, err error) {
		if first == nil {
			first = err
		}
	}
	snap, err := r.ReadList(ctx, b.Uri)
	r.Fail = fail
	switch {
	case ctx.Err() != nil:
		return snap, context.Cause(ctx)
	case err == nil && !snap.Whole():
		err = &UnreadError{Err: first}
	}
	return snap, err
}

// An UnreadError reports a list that could not be read.
type UnreadError struct{ Err error }

func (e *UnreadError) Error() string { return e.Err.Error() }

func (e *UnreadError) Unwrap() error { return e.Err }
