package destination

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/saved"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/internal/nesting"
	"lockstep/resourcesync"
)

// maxReaders caps how many parts of an index are read side by side: each takes
// a connection, and memory to sort in.
const maxReaders = 4

// A snapshot is what a Resource List says of itself.
type snapshot struct {
	at         resourcesync.Datetime
	validators saved.Validators
	sitemap    bool // it is a plain Sitemap, which does not say what it covers
	dump       bool // it is a Resource Dump: the manifests of its packages are the parts
	undated    bool // and neither it nor its entries say as of when
	complete   bool // all documents of it were read
	skipped    bool // entries without a readable loc were left out
	index      bool
	parts      map[string]saved.Validators // of an index, unless they are many
	entries    int64
}

// whole reports whether the list names all that there is: what it does not name
// is gone.
func (s *snapshot) whole() bool { return s.complete && !s.skipped }

// A listReading is one reading of a Resource List and of what is below it.
type listReading struct {
	*setReader
	again bool     // it is the second: what does not fit is not waited for
	snap  snapshot // guarded by mu
}

// A listPart is a part of an index, or a package of a dump.
type listPart struct {
	uri   string
	pkg   int                   // number of the package; zero: it is a document
	at    resourcesync.Datetime // as the index says
	order string                // of its entries among those of other parts
}

// readList stages the entries of the Resource List, or index, at uri. It
// reports what it could not read by fail, which leaves the snapshot incomplete.
func (r *setReader) readList(ctx context.Context, uri string) (snapshot, error) {
	for again := false; ; again = true {
		r.visited, r.parts, r.named, r.nested = map[string]bool{}, 0, 0, nesting.Walk{}
		r.stage.Reset()
		l := &listReading{setReader: r, again: again}
		l.snap.complete = true
		parts, err := l.read(ctx, listPart{uri: uri}, 0, r.stage.AddDocument())
		if err == nil {
			err = l.readParts(ctx, parts, 1)
		}
		if !errors.Is(err, errAgain) {
			return l.snap, err
		}
	}
}

// partsAtOnce is how many parts of an index are read before what is below them:
// so few indexes that a list is reached before they count as leading to none.
const partsAtOnce = 100

// readParts reads parts of an index, some side by side, and then what is below
// them: in what order is not seen in the outcome.
func (l *listReading) readParts(ctx context.Context, parts []listPart, depth int) error {
	for some := range slices.Chunk(parts, partsAtOnce) {
		if l.ended() {
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
	g.SetLimit(min(l.jobs, maxReaders))
	for i := range parts {
		if gctx.Err() != nil {
			break
		}
		n := l.stage.AddDocument()
		l.stage.Documents[n].Order = parts[i].order
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

// read reads one document, the n-th. Of an index it returns the parts.
func (l *listReading) read(ctx context.Context, p listPart, depth, n int) ([]listPart, error) {
	if err := l.enter(p.uri, depth); err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.fail(p.uri, err)
		l.snap.complete = false
		return nil, nil
	}
	if p.pkg > 0 {
		return nil, l.readManifest(ctx, p, depth, n)
	}
	doc, err := l.open(ctx, p.uri, saved.Validators{})
	if err != nil {
		return nil, l.broken(ctx, p.uri, err, &l.snap.complete, depth, l.again)
	}
	defer doc.Close()
	err = expect(doc, l.wanted(doc, depth), depth)
	if err == nil && depth == 0 {
		err = l.keepsKind(doc)
	}
	if err == nil {
		err = l.bound(doc, depth)
	}
	if err != nil {
		return nil, l.broken(ctx, p.uri, err, &l.snap.complete, depth, l.again)
	}
	if err := l.begin(doc, p, depth); err != nil {
		return nil, err
	}
	if l.snap.dump && !doc.Header.Index {
		return l.packagesIn(ctx, doc, p, depth)
	}
	if doc.Header.Index {
		parts, err := l.partsOf(doc, p.order)
		if err != nil {
			err = l.broken(ctx, p.uri, err, &l.snap.complete, depth, l.again)
		}
		return parts, err
	}
	entries, err := l.stageEntries(doc, n)
	if err != nil {
		if local := (*content.LocalError)(nil); errors.As(err, &local) {
			return nil, local.Err
		}
		return nil, l.broken(ctx, p.uri, err, &l.snap.complete, depth, l.again)
	}
	l.skip(doc.URI, doc.Unlocated())
	l.mu.Lock()
	l.snap.entries += entries
	if depth > 0 && len(l.snap.parts) <= maxPolledParts {
		l.snap.parts[p.uri] = saved.Validators{ETag: doc.ETag, Modified: doc.LastModified}
	}
	l.mu.Unlock()
	l.tellWarnings(doc)
	return nil, nil
}

// The kinds of what a set is compared with.
const (
	listSitemap    = "sitemap"      // a plain Sitemap, which does not say what it covers
	listOfStandard = "resourcesync" // a Resource List, a Resource Dump, or an index of these
)

func (s *snapshot) kind() string {
	if s.sitemap {
		return listSitemap
	}
	return listOfStandard
}

// keepsKind checks that a list of an existing mirror is of the kind it was: a
// plain Sitemap in the place of a Resource List may be one of other pages.
func (l *listReading) keepsKind(doc *discover.Document) error {
	now := (&snapshot{sitemap: doc.Header.Capability == ""}).kind()
	was := l.set.ListKind
	if was == "" || was == now || l.baseline || l.set.Lists != doc.URI {
		return nil
	}
	names := map[string]string{listSitemap: "a plain Sitemap", listOfStandard: "a Resource List or Resource Dump"}
	return &discover.KindError{Address: doc.URI, Was: names[was], Now: names[now]}
}

// begin records what a document states about itself.
func (l *listReading) begin(doc *discover.Document, p listPart, depth int) error {
	h, s := &doc.Header, &l.snap
	at := h.At
	if at.IsZero() && h.Capability != "" && depth == 0 && !doc.Modified.IsZero() {
		at = resourcesync.NewDatetime(doc.Modified) // RS-MD-13
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if depth == 0 {
		s.at, s.validators, s.sitemap = at, saved.Validators{ETag: doc.ETag, Modified: doc.LastModified}, h.Capability == ""
		s.index, s.parts = h.Index, map[string]saved.Validators{}
	} else if !at.IsZero() {
		if !p.at.IsZero() && at.Compare(p.at) < 0 && !l.again {
			return errAgain
		}
		if at.Compare(s.at) < 0 {
			s.at = at // RS-RLI-04
		}
	}
	return nil
}

// skip records that entries of a document have no readable loc, if err is not
// nil.
func (l *listReading) skip(uri string, err error) {
	if err == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.snap.skipped = true
	l.fail(uri, err)
}

// partsOf reads an index to its end and closes it: its parts may take long.
func (l *listReading) partsOf(doc *discover.Document, order string) ([]listPart, error) {
	defer doc.Close()
	var parts []listPart
	var dumps []resourcesync.Entry
	for e, err := range doc.Entries() {
		if err == nil {
			err = l.countPart(doc.URI)
		}
		if err != nil {
			return parts, err
		}
		parts = append(parts, listPart{uri: e.Loc, at: e.At, order: placeOf(order, len(parts))})
		if l.snap.dump {
			dumps = append(dumps, resourcesync.Entry{Loc: e.Loc, Lastmod: e.Lastmod, Metadata: resourcesync.Metadata{At: e.At}})
		}
	}
	l.tellWarnings(doc)
	l.skip(doc.URI, doc.Unlocated())
	if i, archive := newestDump(&doc.Header, dumps); archive {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.warn(doc.URI, fmt.Sprintf("read %s: its dumps are of different times; only the newest is used", fetch.Printable(doc.URI)))
		return parts[i : i+1], nil
	}
	return parts, nil
}

// placeOf is the place of the i-th part of an index whose own is order.
func placeOf(order string, i int) string {
	return string(binary.BigEndian.AppendUint32([]byte(order), uint32(i)))
}

// stageEntries stages the entries of the n-th document.
func (l *listReading) stageEntries(doc *discover.Document, n int) (int64, error) {
	out := l.stage.Writer()
	defer out.Release()
	var pos int64
	for e, err := range doc.Entries() {
		if err != nil {
			return pos, err
		}
		w := l.wantOf(&e)
		w.Rank = desired.Rank{Class: desired.Listed, Doc: n, Pos: pos}
		pos++
		if !l.concerns(w.URI) {
			continue
		}
		if err := out.Add(&w); err != nil {
			return pos, &content.LocalError{Err: err}
		}
	}
	return pos, nil
}

// concerns reports whether an entry of a list is to be staged, and notes that it
// is there.
func (l *listReading) concerns(uri string) bool {
	if l.only == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !hasKey(l.only, uri) {
		return false
	}
	l.only[uri] = true
	return true
}

// stageList stages a list. One that cannot be read is an unreadError.
func (r *setReader) stageList(ctx context.Context, b *archived) (snapshot, error) {
	var first error
	fail := r.fail
	r.fail = func(_ string, err error) {
		if first == nil {
			first = err
		}
	}
	snap, err := r.readList(ctx, b.uri)
	r.fail = fail
	switch {
	case ctx.Err() != nil:
		return snap, context.Cause(ctx)
	case err == nil && !snap.whole():
		err = &unreadError{Err: first}
	}
	return snap, err
}

// An unreadError is a list that could not be read.
type unreadError struct{ Err error }

func (e *unreadError) Error() string { return e.Err.Error() }

func (e *unreadError) Unwrap() error { return e.Err }
