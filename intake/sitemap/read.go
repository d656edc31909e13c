package sitemap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"lockstep/catalog"
	"lockstep/discover"
	"lockstep/intake"
	"lockstep/intake/internal/entry"
	"lockstep/intake/internal/fault"
	"lockstep/intake/internal/filestat"
	"lockstep/intake/internal/listed"
	"lockstep/internal/fetch"
	"lockstep/internal/nesting"
	"lockstep/resourcesync"
)

// Limits of an index.
const (
	maxIndexParts = 200_000 // each is a request
)

// A reading is one reading of the documents.
type reading struct {
	list  *intake.Listing
	s     *Sitemap
	whole bool // all documents are read, even those known to be unchanged
	began time.Time

	old     memory
	now     memory
	ids     []string            // ids of the documents that were read
	docs    []string            // their URIs
	asIs    map[string]struct{} // ids of unchanged documents
	lost    map[string]struct{} // ids of documents that could not be read
	visited map[string]bool
	nested  nesting.Walk
	isIndex bool // the document that was read last is an index
	fresh   bool // at least one document was read
	undated int64
	said    []byte
	rules   []byte          // part of the fingerprint, so that with other rules the entries count as changed
	failed  map[uint32]bool // documents with resources that could not be fetched
	changed bool            // documents changed while they were read, so that a resource that moved may be missing
	missed  *missed         // by the reading before, in which that was so; else nil

	strayed  map[string]struct{} // ids of the documents that listed what is gone, if they could be read
	doubtful map[string]struct{} // ids of the documents that listed what is missing now, and was found by the reading before
}

func (s *Sitemap) newReading(whole bool) *reading {
	var rules []byte
	if s.o.Content {
		rules = []byte(s.rules())
	}
	return &reading{
		rules: rules,
		list:  s.in.NewListing(), s: s, whole: whole, began: time.Now(),
		now:     memory{Rules: s.rules(), Address: s.in.Name, Docs: make(map[string]document)},
		asIs:    make(map[string]struct{}),
		lost:    make(map[string]struct{}),
		visited: make(map[string]bool),
		failed:  make(map[uint32]bool),
		strayed: make(map[string]struct{}), doubtful: make(map[string]struct{}),
	}
}

// run reads the documents and applies them. It reports again if all documents have to
// be read to find out which resources are gone.
func (r *reading) run(ctx context.Context) (again bool, err error) {
	stop := r.list.Progress()
	defer stop()
	at, err := r.list.Point(ctx)
	if err != nil {
		return false, err
	}
	if !r.s.recalled {
		r.s.recalled = true
		if !intake.Recall(r.s.o.State, &r.s.memory) {
			r.s.memory = memory{}
		}
	}
	if m := r.s.memory; !r.whole && m.Rules == r.now.Rules && m.Address == r.now.Address && m.Point == at {
		r.old = m
	}
	if err := r.visit(ctx, r.list.Name, 0); err != nil {
		return false, err
	}
	if !r.fresh && !r.old.Undated {
		r.list.Files.Store(at.Resources)
		r.list.Unchanged.Store(at.Resources)
		return false, nil
	}
	if r.undated > 0 && !r.s.o.Content {
		r.list.Skipped(r.list.Name, undatedError(r.undated))
	}
	if again, err = r.take(ctx); err != nil || again {
		return again, err
	}
	if r.list.Gone.Count > 0 && !r.list.Incomplete.Load() && len(r.visited) > 1 && r.missed == nil {
		if r.changed = !r.unchanged(ctx); r.changed {
			return true, ctx.Err()
		}
	}
	if err := r.list.Finish(ctx); err != nil {
		return false, err
	}
	return false, r.remember(ctx)
}

// An undatedError reports the number of entries that do not show changes of their
// resources.
type undatedError int64

func (n undatedError) Error() string {
	if n == 1 {
		return "1 entry states neither lastmod nor hash, so changes of its resource cannot be detected"
	}
	return fmt.Sprintf("%d entries state neither lastmod nor hash, so changes of their resources cannot be detected", int64(n))
}

// visit reads the document at uri and the documents below it. Errors are reported, and
// leave the reading incomplete.
func (r *reading) visit(ctx context.Context, uri string, depth int) error {
	if r.visited[uri] { // an index that leads back to itself, or lists a part twice
		r.list.Skipped(uri, errListedTwice)
		return nil
	}
	if r.nested.Ended() { // already reported: the rest of the list is unknown
		return nil
	}
	err := r.enter(uri, depth)
	var parts []string
	if err == nil {
		parts, err = r.readDoc(ctx, uri)
	}
	if err == nil {
		if err = r.bound(uri, depth); err != nil {
			parts = nil
		}
	}
	switch _, stop := errors.AsType[*fault.StopError](err); {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case stop:
		return err
	case err != nil && depth == 0:
		return fault.Plain(uri, err)
	case err != nil:
		r.lost[partID(uri)] = struct{}{}
		r.list.Illegible(uri, fault.Plain(uri, err))
	}
	for _, part := range parts {
		if err := r.visit(ctx, part, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// bound guards against indexes that are nested too deeply or never lead to a list.
func (r *reading) bound(uri string, depth int) error {
	if !r.isIndex {
		r.nested.Yield()
		return nil
	}
	err := r.nested.Index(depth)
	if err != nil {
		delete(r.now.Docs, uri) // the next scan reads it again, and the documents below it
	}
	return err
}

var errListedTwice = errors.New("the document is listed below itself, or twice")

// enter checks whether the document at uri may be read: limits of depth and number,
// and files only if the Sitemap is a file.
func (r *reading) enter(uri string, depth int) error {
	switch {
	case depth > nesting.MaxDepth:
		return nesting.ErrDeep
	case len(r.visited) > maxIndexParts:
		return fmt.Errorf("more than %d documents", maxIndexParts)
	}
	r.visited[uri] = true
	if _, local := localPath(uri); local && r.s.file == "" {
		return errors.New("a document from the web must not refer to a file on this machine")
	}
	return nil
}

// readDoc reads the entries of the document at uri, or returns the parts of an
// index.
func (r *reading) readDoc(ctx context.Context, uri string) (parts []string, err error) {
	known, remembered := r.old.Docs[uri]
	path, local := localPath(uri)
	now := document{}
	if local {
		now.Mark = filestat.MarkAt(path)
		if remembered && known.Mark == now.Mark {
			return r.keep(uri, known), nil
		}
	}
	client := r.s.client
	if local { // enter has allowed it
		client = nil
	}
	doc, err := discover.Open(ctx, client, uri, discover.Validators{ETag: known.ETag, LastModified: known.Modified})
	if errors.Is(err, discover.ErrNotModified) {
		return r.keep(uri, known), nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = doc.Close() }() // only read from
	r.fresh, r.isIndex = true, doc.Header.Index
	if c := doc.Header.Capability; c != "" && c != resourcesync.ResourceList {
		return nil, fmt.Errorf("it is a %s, not a Sitemap or Resource List", fetch.Printable(string(c)))
	}
	now.ETag, now.Modified, now.Index = doc.ETag, doc.LastModified, doc.Header.Index
	if local && r.began.Sub(doc.Modified) < filestat.CoarseTick {
		now.Mark = "" // a change might leave size and times as they are
	}
	if now.Index {
		if parts, err = indexParts(doc); err != nil {
			return parts, err
		}
		now.Parts = parts
	} else if err := r.entries(uri, doc); err != nil {
		return nil, err
	}
	switch n, err := doc.Stats().Skipped, doc.Unlocated(); {
	case n > 0:
		r.lost[partID(uri)] = struct{}{}
		r.list.Illegible(uri, fmt.Errorf("%d entries could not be read: %s", n, firstWarning(doc)))
		return parts, nil
	case err != nil:
		r.lost[partID(uri)] = struct{}{}
		r.list.Illegible(uri, fault.Plain(uri, err))
		return parts, nil
	}
	if now.ETag != "" || now.Modified != "" || now.Mark != "" {
		r.now.Docs[uri] = now
	}
	return parts, nil
}

// keep notes that a document is unchanged, and returns its parts.
func (r *reading) keep(uri string, known document) []string {
	r.now.Docs[uri], r.isIndex = known, known.Index
	if !known.Index {
		r.asIs[partID(uri)] = struct{}{}
	}
	return known.Parts
}

// indexParts returns the parts that an index lists, up to the first error.
func indexParts(doc *discover.Document) (parts []string, err error) {
	for e, err := range doc.Entries() {
		if err != nil {
			return parts, err
		}
		if len(parts) == maxIndexParts {
			return parts, fmt.Errorf("more than %d parts", maxIndexParts)
		}
		parts = append(parts, e.Loc)
	}
	return parts, nil
}

// firstWarning describes the first problem in a document.
func firstWarning(doc *discover.Document) string {
	if ws := doc.Warnings(); len(ws) > 0 {
		return fetch.Printable(ws[0].String())
	}
	return "they name no resource"
}

// entries adds the entries of a document to the sorter.
func (r *reading) entries(uri string, doc *discover.Document) error {
	part := uint32(len(r.docs))
	r.docs, r.ids = append(r.docs, uri), append(r.ids, partID(uri))
	var e resourcesync.Entry
	for {
		switch err := doc.Read(&e); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		rec, err := r.record(&e)
		if err != nil {
			r.list.Skipped(fetch.Printable(e.Loc), err)
			continue
		}
		if undated(&rec) {
			r.undated++
		}
		r.said = listed.AppendRecord(r.said[:0], &rec)
		if err := r.list.Sorter.Add([]byte(rec.URI), part, false, r.said); err != nil {
			return &fault.StopError{Err: err}
		}
	}
}

// record returns the record that an entry describes, with what a Source can publish:
// links and codings that it cannot are reported and left out.
func (r *reading) record(e *resourcesync.Entry) (catalog.Record, error) {
	rec := catalog.Record{URI: e.Loc, Length: -1, Type: e.Type, Encoding: e.Encoding, Hashes: e.Hashes, Foreign: e.Foreign}
	if !e.Lastmod.IsZero() {
		rec.Lastmod = e.Lastmod.Time().Truncate(time.Microsecond)
	}
	if e.HasLength {
		rec.Length = e.Length
	}
	bare := resourcesync.Entry{Loc: e.Loc, Metadata: resourcesync.Metadata{Encoding: e.Encoding}}
	if err := entry.CheckListed(&bare); err != nil && !entry.Listable(bare.Metadata) {
		r.list.Skipped(fetch.Printable(e.Loc), err)
		rec.Encoding, bare.Encoding = "", ""
	}
	bare.Type = e.Type
	if err := entry.CheckListed(&bare); err != nil {
		return rec, err
	}
	if err := entry.CheckFetchable(e.Loc); err != nil {
		return rec, err
	}
	var drop entry.LinkFilter
	for i := range e.Links {
		l := e.Links[i]
		l.Path = ""
		bare.Links = []resourcesync.Link{l}
		err := entry.CheckListed(&bare)
		if err == nil {
			err = drop.Check(&l)
		}
		if err != nil {
			r.list.Skipped(fetch.Printable(e.Loc), err)
			continue
		}
		rec.Links = append(rec.Links, l)
	}
	return rec, nil
}

// undated reports whether a record states neither lastmod nor hash, so that changes of
// the resource do not show.
func undated(r *catalog.Record) bool { return r.Lastmod.IsZero() && len(r.Hashes) == 0 }

// remember stores the state of the documents.
func (r *reading) remember(ctx context.Context) error {
	at, err := r.list.Point(ctx)
	if err != nil {
		return err
	}
	for part := range r.failed {
		delete(r.now.Docs, r.docs[part])
	}
	r.now.Point = at
	r.now.Shared = r.now.Shared || r.list.Sorter.Doubled || len(r.asIs) > 0 && r.old.Shared
	r.now.Undated = r.s.o.Content && (r.now.Undated || len(r.asIs) > 0 && r.old.Undated)
	if r.list.Incomplete.Load() { // what is gone was not deleted
		maps.Copy(r.doubtful, r.strayed)
	}
	if len(r.doubtful) > 0 {
		r.forget()
	}
	r.s.memory = r.now
	if err := intake.Remember(r.s.o.State, r.now); err != nil {
		return fmt.Errorf("save the state of the documents: %w", err)
	}
	return nil
}

// forget makes the next scan look again for what is missing and was not deleted: it reads the
// documents that listed it, and the root document, because a scan that reads none ends at once.
func (r *reading) forget() {
	for uri := range r.visited {
		id := partID(uri)
		if _, ok := r.doubtful[id]; ok {
			delete(r.now.Docs, uri)
			delete(r.doubtful, id)
		}
	}
	delete(r.now.Docs, r.list.Name)
	if len(r.doubtful) > 0 { // it is not known what listed the rest
		r.now = memory{}
	}
}

// localPath returns the path that an address names on this machine.
func localPath(address string) (string, bool) {
	if !strings.Contains(address, "://") {
		return address, !strings.HasPrefix(strings.ToLower(address), "file:")
	}
	u, err := url.Parse(address)
	if err != nil || !strings.EqualFold(u.Scheme, "file") {
		return "", false
	}
	return filepath.FromSlash(u.Path), true
}
