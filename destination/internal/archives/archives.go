// Package archives reads the archives of a set: which documents they list, and of
// which times these are.
package archives

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"

	"golang.org/x/sync/errgroup"

	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/wording"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// MaxBytes limits the memory used for the addresses of archived documents.
const MaxBytes = 32 << 20

// maxUndated limits how many archived documents are opened only to read their
// times, because each costs a request.
const maxUndated = 10_000

// undated reports whether the time of a is unknown. For changes an end without a
// beginning is enough: the range they cover is checked when they are read.
func undated(a *entries.Archived) bool {
	if a.Kind.Changes() {
		return a.From.IsZero()
	}
	return a.At.IsZero()
}

// archiveOf returns the capability of archives of documents of kind c.
func archiveOf(c resourcesync.Capability) resourcesync.Capability { return c + "-archive" }

// Snapshots returns the Resource Lists and Resource Dumps of the set, archived and
// current, oldest first (RA-DST-01). Of several with the same instant, the last is
// preferred (RA-RES-05). A document that cannot be read is left out with a warning.
func Snapshots(ctx context.Context, r *entries.Reader) ([]entries.Archived, error) {
	return read(ctx, r, [2]string{r.Set.Lists, r.Set.Dump}, resourcesync.ResourceList, resourcesync.ResourceDump)
}

// History returns the Change Lists and Change Dumps of the set, archived and
// current, ordered by their beginnings (RA-CHG-06). A document that cannot be read
// is left out with a warning.
func History(ctx context.Context, r *entries.Reader) ([]entries.Archived, error) {
	return read(ctx, r, [2]string{r.Set.Changes, r.Set.ChangeDump}, resourcesync.ChangeList, resourcesync.ChangeDump)
}

// Changes returns the documents that the archive of changes of one kind
// lists; some may turn out to be of the other kind (RA-ADV-04). linked contains the
// archives to which current documents link.
func Changes(ctx context.Context, r *entries.Reader, kind resourcesync.Capability, linked map[resourcesync.Capability]string) ([]entries.Archived, error) {
	a := &reading{Reader: r, linked: linked}
	r.Restart()
	if err := a.readArchives(ctx, kind); err != nil {
		return nil, err
	}
	return a.settle(ctx, resourcesync.ChangeList, resourcesync.ChangeDump)
}

// read returns the documents listed in the archives of some kinds, and the
// current documents of these kinds.
func read(ctx context.Context, r *entries.Reader, current [2]string, kinds ...resourcesync.Capability) ([]entries.Archived, error) {
	a := &reading{Reader: r, linked: map[resourcesync.Capability]string{}}
	r.Restart()
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
func (a *reading) settle(ctx context.Context, kinds ...resourcesync.Capability) ([]entries.Archived, error) {
	a.found = slices.DeleteFunc(a.found, func(d entries.Archived) bool { return !slices.Contains(kinds, d.Kind) })
	a.unite()
	if err := a.date(ctx); err != nil {
		return nil, err
	}
	a.sort()
	return a.found, nil
}

// A reading is one pass over the archives of a set.
type reading struct {
	*entries.Reader
	found  []entries.Archived
	bytes  int                                // total size of the addresses listed
	linked map[resourcesync.Capability]string // archives to which the current documents link, by the kind of document they list
}

// readCurrent adds a current document, with the times that its root element states.
func (a *reading) readCurrent(ctx context.Context, uri string) error {
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
	d := entries.Archived{Uri: uri, Kind: h.Capability, Current: true, Place: len(a.found)}
	d.Take(h)
	a.found = append(a.found, d)
	return nil
}

// readMixed adds the parts of an index whose parts have different times, which is
// how drafts of the standard described archives (RA-VER-03). It reports whether doc
// is such an index.
func (a *reading) readMixed(doc *discover.Document) (bool, error) {
	if !doc.Header.At.IsZero() && !doc.Header.Approximate {
		return false, nil
	}
	parts, err := a.PartsOf(doc)
	if err != nil {
		return false, err
	}
	h := doc.Header
	h.At = resourcesync.Datetime{}
	newest, mixed := entries.NewestDump(&h, parts)
	if !mixed {
		return false, nil
	}
	for i := range parts {
		a.found = append(a.found, entries.Archived{
			Uri: parts[i].Loc, Kind: h.Capability, Current: i == newest, Lastmod: parts[i].Lastmod, Place: len(a.found),
		})
	}
	return true, nil
}

// readParts adds the parts of a current index of changes; some of them may also be
// listed in the archive (RA-GEN-11).
func (a *reading) readParts(doc *discover.Document) (bool, error) {
	parts, err := a.PartsOf(doc)
	for i := range parts {
		e := &parts[i]
		a.found = append(a.found, entries.Archived{
			Uri: e.Loc, Kind: doc.Header.Capability, Current: e.Until.IsZero(), From: e.From, Until: e.Until, Lastmod: e.Lastmod, Place: len(a.found),
		})
	}
	return true, err
}

// readArchives reads the archive of documents of a kind: the one in the Capability
// List, otherwise the one to which the document itself links (RA-ADV-04).
func (a *reading) readArchives(ctx context.Context, kind resourcesync.Capability) error {
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
func (a *reading) readArchive(ctx context.Context, uri string, want resourcesync.Capability, depth int) error {
	if a.Ended() {
		return nil // already reported
	}
	if err := a.Enter(uri, depth); err != nil {
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
		return entries.Expect(doc, archiveOf(want))
	}
	if archive {
		if err := a.Bound(doc, depth); err != nil {
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
func (a *reading) list(doc *discover.Document, kind resourcesync.Capability, index bool) (below []string, err error) {
	defer doc.Close()
	for e, err := range doc.Entries() {
		if err == nil {
			err = a.CountPart(doc.URI)
		}
		if err != nil {
			return nil, err
		}
		if a.bytes += len(e.Loc); a.bytes > MaxBytes {
			return nil, fmt.Errorf("read %s: the addresses of archived documents take more than %d MiB", fetch.Printable(doc.URI), MaxBytes>>20)
		}
		if index {
			below = append(below, e.Loc)
			continue
		}
		a.found = append(a.found, entries.Archived{
			Uri: e.Loc, Kind: kind, At: e.At, Completed: e.Completed, From: e.From, Until: e.Until, Lastmod: e.Lastmod, Place: len(a.found),
		})
	}
	a.ReportWarnings(doc)
	return below, nil
}

// leaveOut warns of an archived document that cannot be read: the others are useful
// without it (RA-DST-08).
func (a *reading) leaveOut(ctx context.Context, uri string, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		a.ReportWarning(uri, fmt.Sprintf("archives of set %s: %v; it is left out", a.Set.Name, err))
	}
	return nil
}

// unite removes duplicates of documents listed more than once (RA-GEN-11,
// RA-IDX-06). If the listings state different times, the document itself is read
// for its times.
func (a *reading) unite() {
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

// date reads the times of documents from the documents themselves where no archive
// states them (RA-RES-04, RA-IDX-04). Documents that cannot be read are left out.
func (a *reading) date(ctx context.Context) error {
	var opened []*entries.Archived
	for i := range a.found {
		if d := &a.found[i]; undated(d) && !d.Dated && len(opened) < maxUndated {
			opened = append(opened, d)
		}
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(min(a.Jobs, entries.MaxReaders))
	for _, d := range opened {
		g.Go(func() error {
			err := a.Confirm(gctx, d)
			if err == nil || gctx.Err() != nil {
				return context.Cause(gctx)
			}
			d.Kind = "" // removed below
			return a.leaveOut(gctx, d.Uri, err)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i := range a.found {
		guess(&a.found[i])
	}
	a.found = slices.DeleteFunc(a.found, func(d entries.Archived) bool { return d.Kind == "" || !d.Kind.Changes() && d.At.IsZero() })
	return nil
}

// guess uses the time at which the document was written where no better time is
// known (RA-VER-02).
func guess(d *entries.Archived) {
	switch {
	case d.Kind.Changes() && d.Until.IsZero() && d.From.IsZero() && !d.Current:
		d.Until, d.Approx = d.Lastmod, true
	case !d.Kind.Changes() && d.At.IsZero():
		d.At, d.Approx = d.Lastmod, true
	}
}

// sort orders snapshots by their instants, and changes by their beginnings,
// regardless of the order in which they were listed (RA-RES-03, RA-CHG-06).
func (a *reading) sort() {
	sort.SliceStable(a.found, func(i, j int) bool {
		x, y := &a.found[i], &a.found[j]
		if x.Kind.Changes() {
			return cmp.Or(x.Begins().Compare(y.Begins()), x.Until.Compare(y.Until), cmp.Compare(x.Place, y.Place)) < 0
		}
		return cmp.Or(x.At.Compare(y.At), x.Completed.Compare(y.Completed), cmp.Compare(x.Place, y.Place)) < 0
	})
	for i := 1; i < len(a.found); i++ {
		x, y := &a.found[i-1], &a.found[i]
		if !x.Kind.Changes() && x.Kind == y.Kind && x.At.Compare(y.At) == 0 && !x.Current && !y.Current { // otherwise it is the same document, listed twice
			a.Warn(y.Uri, fmt.Sprintf("archives of set %s: %s and %s are both of %s; the latter is used", a.Set.Name, fetch.Printable(x.Uri), fetch.Printable(y.Uri), wording.Time(x.At.Time())))
		}
	}
}
