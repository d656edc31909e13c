package entries

import (
	"context"
	"fmt"
	"slices"

	"lockstep/destination/internal/saved"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/internal/nesting"
	"lockstep/resourcesync"
)

// MaxArchivedBytes limits the memory used for the addresses of archived documents.
const MaxArchivedBytes = 32 << 20

// maxUndated limits how many archived documents are opened only to read their
// times, because each costs a request.
const maxUndated = 10_000

// An Archived is a document that an archive lists, or a current document of the
// set. Its times are those that the archive states, where it states any; see
// [Reader.Confirm].
type Archived struct {
	Uri     string
	Kind    resourcesync.Capability // ResourceList, ResourceDump, ChangeList or ChangeDump; it may be an index of that (RA-GEN-07)
	Current bool                    // it is listed in the Capability List, or is an open part of such a document
	Approx  bool                    // its times are inferred from its modification time (RA-VER-02)

	At, Completed resourcesync.Datetime // of a snapshot
	From, Until   resourcesync.Datetime // of changes; Until is zero if the document may still grow or does not state its end

	lastmod resourcesync.Datetime // of the document (RA-DOC-06)
	place   int                   // position in reading order
	Dated   bool                  // the root element of the document was read
}

// changes reports whether a lists changes rather than a state.
func (a *Archived) changes() bool { return a.Kind.Changes() }

// undated reports whether the time of a is unknown. For changes an end without a
// beginning is enough: the range they cover is checked when they are read.
func (a *Archived) undated() bool {
	if a.changes() {
		return a.From.IsZero()
	}
	return a.At.IsZero()
}

// archiveOf returns the capability of archives of documents of kind c.
func archiveOf(c resourcesync.Capability) resourcesync.Capability { return c + "-archive" }

// Snapshots returns the Resource Lists and Resource Dumps of the set, archived and
// current, oldest first (RA-DST-01). Of several with the same instant, the last is
// preferred (RA-RES-05). A document that cannot be read is left out with a warning.
func (r *Reader) Snapshots(ctx context.Context) ([]Archived, error) {
	return r.archives(ctx, [2]string{r.Set.Lists, r.Set.Dump}, resourcesync.ResourceList, resourcesync.ResourceDump)
}

// History returns the Change Lists and Change Dumps of the set, archived and
// current, ordered by their beginnings (RA-CHG-06). A document that cannot be read
// is left out with a warning.
func (r *Reader) History(ctx context.Context) ([]Archived, error) {
	return r.archives(ctx, [2]string{r.Set.Changes, r.Set.ChangeDump}, resourcesync.ChangeList, resourcesync.ChangeDump)
}

// ArchivedChanges returns the documents that the archive of changes of one kind
// lists; some may turn out to be of the other kind (RA-ADV-04). linked contains the
// archives to which current documents link.
func (r *Reader) ArchivedChanges(ctx context.Context, kind resourcesync.Capability, linked map[resourcesync.Capability]string) ([]Archived, error) {
	a := &archiveReading{Reader: r, linked: linked}
	r.visited, r.parts, r.nested = map[string]bool{}, 0, nesting.Walk{}
	if err := a.readArchives(ctx, kind); err != nil {
		return nil, err
	}
	return a.settle(ctx, resourcesync.ChangeList, resourcesync.ChangeDump)
}

// archives returns the documents listed in the archives of some kinds, and the
// current documents of these kinds.
func (r *Reader) archives(ctx context.Context, current [2]string, kinds ...resourcesync.Capability) ([]Archived, error) {
	a := &archiveReading{Reader: r, linked: map[resourcesync.Capability]string{}}
	r.visited, r.parts, r.nested = map[string]bool{}, 0, nesting.Walk{}
	for _, uri := range current {
		if err := a.readCurrent(ctx, uri); err != nil {
			return nil, err
		}
	}
	for _, kind := range kinds {
		if err := a.readArchives(ctx, kind); err != nil {
			return nil, err
		}
	}
	return a.settle(ctx, kinds...)
}

// settle returns the documents of some kinds that were found, in order.
func (a *archiveReading) settle(ctx context.Context, kinds ...resourcesync.Capability) ([]Archived, error) {
	a.found = slices.DeleteFunc(a.found, func(d Archived) bool { return !slices.Contains(kinds, d.Kind) })
	a.unite()
	if err := a.date(ctx); err != nil {
		return nil, err
	}
	a.sort()
	return a.found, nil
}

// An archiveReading is one pass over the archives of a set.
type archiveReading struct {
	*Reader
	found  []Archived
	bytes  int                                // total size of the addresses listed
	linked map[resourcesync.Capability]string // archives to which the current documents link, by the kind of document they list
}

// readCurrent adds a current document, with the times that its root element states.
func (a *archiveReading) readCurrent(ctx context.Context, uri string) error {
	if uri == "" {
		return nil
	}
	doc, err := a.Open(ctx, uri, saved.Validators{})
	if err != nil {
		return a.leaveOut(ctx, uri, err)
	}
	defer doc.Close()
	h := &doc.Header
	if target := h.Link(resourcesync.RelArchives); target != "" {
		a.linked[h.Capability] = target // RA-ADV-03
	}
	switch h.Capability {
	case resourcesync.ResourceList, resourcesync.ResourceDump, resourcesync.ChangeList, resourcesync.ChangeDump:
	default:
		return nil // a plain Sitemap states no times
	}
	if h.Index {
		read := a.readMixed
		if h.Capability.Changes() {
			read = a.readParts
		}
		if ok, err := read(doc); ok || err != nil {
			return a.leaveOut(ctx, uri, err)
		}
	}
	d := Archived{Uri: uri, Kind: h.Capability, Current: true, place: len(a.found)}
	d.take(h)
	a.found = append(a.found, d)
	return nil
}

// readMixed adds the parts of an index whose parts have different times, which is
// how drafts of the standard described archives (RA-VER-03). It reports whether doc
// is such an index.
func (a *archiveReading) readMixed(doc *discover.Document) (bool, error) {
	if !doc.Header.At.IsZero() && !doc.Header.Approximate {
		return false, nil
	}
	parts, err := a.partsOf(doc)
	if err != nil {
		return false, err
	}
	h := doc.Header
	h.At = resourcesync.Datetime{}
	newest, mixed := newestDump(&h, parts)
	if !mixed {
		return false, nil
	}
	for i := range parts {
		a.found = append(a.found, Archived{
			Uri: parts[i].Loc, Kind: h.Capability, Current: i == newest, lastmod: parts[i].Lastmod, place: len(a.found),
		})
	}
	return true, nil
}

// readParts adds the parts of a current index of changes; some of them may also be
// listed in the archive (RA-GEN-11).
func (a *archiveReading) readParts(doc *discover.Document) (bool, error) {
	parts, err := a.partsOf(doc)
	for i := range parts {
		e := &parts[i]
		a.found = append(a.found, Archived{
			Uri: e.Loc, Kind: doc.Header.Capability, Current: e.Until.IsZero(), From: e.From, Until: e.Until, lastmod: e.Lastmod, place: len(a.found),
		})
	}
	return true, err
}

// readArchives reads the archive of documents of a kind: the one in the Capability
// List, otherwise the one to which the document itself links (RA-ADV-04).
func (a *archiveReading) readArchives(ctx context.Context, kind resourcesync.Capability) error {
	named, linked := a.Set.Archives[kind], a.linked[kind]
	for i, uri := range [2]string{named, linked} {
		if uri == "" || i > 0 && linked == named {
			continue
		}
		before := len(a.found)
		err := a.readArchive(ctx, uri, kind, 0)
		if err == nil {
			return nil
		}
		a.found = a.found[:before]
		if err := a.leaveOut(ctx, uri, err); err != nil {
			return err
		}
	}
	return nil
}

// readArchive adds the documents that an archive, or an index of archives, lists.
// Its root element says which of the two it is (RA-GEN-06). A part that cannot be
// read is left out.
func (a *archiveReading) readArchive(ctx context.Context, uri string, want resourcesync.Capability, depth int) error {
	if ended(a.Reader) {
		return nil // already reported
	}
	if err := a.enter(uri, depth); err != nil {
		return err
	}
	doc, err := a.Open(ctx, uri, saved.Validators{})
	if err != nil {
		return err
	}
	h := &doc.Header
	kind, archive := saved.ArchivedKind(h.Capability)
	switch {
	case archive && kind == want:
	case archive:
		a.Warn(uri, fmt.Sprintf("read %s: it is a %s, not a %s", fetch.Printable(uri), h.Capability, archiveOf(want)))
	case h.Index && kind == want: // RA-VER-03
		a.Warn(uri, fmt.Sprintf("read %s: an index of documents of different times, as in version 0.5, read as a %s", fetch.Printable(uri), archiveOf(want)))
	default:
		_ = doc.Close() // not the requested kind of document
		return &CapabilityError{uri, h.Capability, archiveOf(want)}
	}
	if archive {
		if err := a.bound(doc, depth); err != nil {
			_ = doc.Close() // it is not read further
			return err
		}
	}
	below, err := a.list(doc, kind, archive && h.Index)
	if err != nil {
		return err
	}
	for _, uri := range below {
		if err := a.readArchive(ctx, uri, want, depth+1); err != nil {
			if err := a.leaveOut(ctx, uri, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// list adds the documents that an archive lists, or returns the archives that an
// index lists. It closes the document.
func (a *archiveReading) list(doc *discover.Document, kind resourcesync.Capability, index bool) (below []string, err error) {
	defer doc.Close()
	for e, err := range doc.Entries() {
		if err == nil {
			err = a.countPart(doc.URI)
		}
		if err != nil {
			return nil, err
		}
		if a.bytes += len(e.Loc); a.bytes > MaxArchivedBytes {
			return nil, fmt.Errorf("read %s: the addresses of archived documents take more than %d MiB", fetch.Printable(doc.URI), MaxArchivedBytes>>20)
		}
		if index {
			below = append(below, e.Loc)
			continue
		}
		a.found = append(a.found, Archived{
			Uri: e.Loc, Kind: kind, At: e.At, Completed: e.Completed, From: e.From, Until: e.Until, lastmod: e.Lastmod, place: len(a.found),
		})
	}
	a.reportWarnings(doc)
	return below, nil
}

// leaveOut warns of an archived document that cannot be read: the others are useful
// without it (RA-DST-08).
func (a *archiveReading) leaveOut(ctx context.Context, uri string, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		a.mu.Lock()
		defer a.mu.Unlock()
		a.Warn(uri, fmt.Sprintf("archives of set %s: %v; it is left out", a.Set.Name, err))
	}
	return nil
}

// unite removes duplicates of documents listed more than once (RA-GEN-11,
// RA-IDX-06). If the listings state different times, the document itself is read
// for its times.
func (a *archiveReading) unite() {
	byURI := make(map[string]int, len(a.found))
	kept := a.found[:0]
	for _, d := range a.found {
		i, ok := byURI[d.Uri]
		if !ok {
			byURI[d.Uri] = len(kept)
			kept = append(kept, d)
			continue
		}
		k := &kept[i]
		if !k.Current && (k.At.Compare(d.At) != 0 || k.From.Compare(d.From) != 0 || k.Until.Compare(d.Until) != 0) {
			k.At, k.Completed, k.From, k.Until = resourcesync.Datetime{}, resourcesync.Datetime{}, resourcesync.Datetime{}, resourcesync.Datetime{}
		}
	}
	a.found = kept
}
