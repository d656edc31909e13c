package entries

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/dump"
	"lockstep/destination/internal/saved"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// maxPackages limits the packages of a dump, or of all dumps that an index names,
// because each is remembered for the run. Ten billion resources would need as many.
const maxPackages = 100_000

// RefOf returns the package that an entry of a dump names.
func (r *Reader) RefOf(e *resourcesync.Entry) dump.Ref {
	ref := dump.Ref{URI: e.Loc, Length: -1, Hashes: e.Hashes, Refused: r.Refuse(e.Loc)}
	if e.HasLength {
		ref.Length = e.Length
	}
	for i := range e.Links {
		if l := &e.Links[i]; l.Rel == resourcesync.RelContents && l.Href != "" {
			if r.Refuse(l.Href) == "" {
				ref.Contents = &resourcesync.Link{Rel: l.Rel, Href: l.Href, Hashes: l.Hashes}
			}
			break
		}
	}
	return ref
}

// packagesOfDump reads a dump to its end, closes it, and returns its entries.
func (r *Reader) packagesOfDump(doc *discover.Document) ([]resourcesync.Entry, error) {
	entries, err := r.PartsOf(doc)
	if countPackages(r, len(entries)) > maxPackages && err == nil {
		err = fmt.Errorf("read %s: more than %d packages", fetch.Printable(doc.URI), maxPackages)
		entries = nil
	}
	return entries, err
}

// countPackages adds more to the number of packages named in this reading, and
// returns the total.
func countPackages(r *Reader, more int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.named += more
	return r.named
}

// manifestsAhead is the number of manifests that are opened before they are read:
// each takes some round trips and occupies a connection.
const manifestsAhead = 3

// eachManifest opens the manifests of packages, some ahead of time, and passes each
// to use in order, or the error if it could not be opened. use closes the manifest.
func (r *Reader) eachManifest(ctx context.Context, packages []int, use func(i int, m *dump.Manifest, err error) error) error {
	type opened struct {
		m   *dump.Manifest
		err error
	}
	var wg sync.WaitGroup
	octx, stop := context.WithCancel(ctx)
	queue := make(chan chan opened, manifestsAhead-1)
	wg.Go(func() {
		defer close(queue)
		for _, n := range packages {
			one := make(chan opened, 1)
			select {
			case queue <- one:
			case <-octx.Done():
				return
			}
			wg.Go(func() {
				m, err := r.openNumbered(octx, n, true)
				one <- opened{m, err}
			})
		}
	})
	defer wg.Wait()
	defer func() {
		stop()
		for one := range queue {
			if o := <-one; o.err == nil {
				_ = o.m.Close() // it will not be read
			}
		}
	}()
	i := 0
	for one := range queue {
		o := <-one
		if err := use(i, o.m, o.err); err != nil {
			return err
		}
		i++
	}
	return ctx.Err()
}

// checkManifest checks that m is a manifest of the wanted kind, or does not state
// its kind, as those written by old tools.
func checkManifest(m *dump.Manifest, want resourcesync.Capability) error {
	if got := m.Header.Capability; got != want && got != "" {
		return &CapabilityError{m.URI, got, want}
	}
	return nil
}

// memberOf returns the location of the content that an entry of a manifest
// describes.
func memberOf(pkg int, e *resourcesync.Entry) desired.Member {
	if e.Path == "" {
		return desired.Member{}
	}
	return desired.Member{Package: pkg, Path: e.Path}
}

// membersOf returns how many files of a package an entry of its manifest may name: its content, and patches.
func membersOf(e *resourcesync.Entry) int {
	n := 1
	for i := range e.Links {
		if e.Links[i].Path != "" {
			n++
		}
	}
	return n
}

// wanted returns the expected kind of a document of the reading: the first document
// determines whether it is a list or a dump (RS-CL-11).
func (l *listReading) wanted(doc *discover.Document, depth int) resourcesync.Capability {
	if depth == 0 {
		l.snap.Dump = doc.Header.Capability == resourcesync.ResourceDump
	}
	if l.snap.Dump {
		return resourcesync.ResourceDump
	}
	return resourcesync.ResourceList
}

// packagesIn reads a Resource Dump to its end, closes it, and returns its packages,
// whose manifests are read as if they were the parts of a Resource List
// (RS-DST-01).
func (l *listReading) packagesIn(ctx context.Context, doc *discover.Document, p listPart, depth int) ([]listPart, error) {
	entries, err := l.packagesOfDump(doc)
	if err != nil {
		err = l.broken(ctx, p.uri, err, &l.snap.Complete, depth, l.again)
	}
	l.skip(p.uri, doc.Unlocated())
	l.mu.Lock()
	defer l.mu.Unlock()
	if depth > 0 && len(l.snap.Parts) <= maxPolledParts {
		l.snap.Parts[p.uri] = saved.Validators{ETag: doc.ETag, Modified: doc.LastModified}
	}
	var parts []listPart
	for i := range entries {
		ref := l.RefOf(&entries[i])
		ref.Listing = true
		parts = append(parts, listPart{uri: ref.URI, pkg: l.Packages.Add(ref), order: placeOf(p.order, i)})
		if at := entries[i].At; !at.IsZero() && (l.snap.At.IsZero() || at.Compare(l.snap.At) < 0) {
			l.snap.At = at // as RS-RLI-04
		}
	}
	l.snap.undated = l.snap.At.IsZero()
	return parts, err
}

// readManifest stages the entries of a package's manifest, as the n-th document.
func (l *listReading) readManifest(ctx context.Context, p listPart, depth, n int) error {
	m, err := l.openNumbered(ctx, p.pkg, true)
	if err == nil {
		defer m.Close()
		err = checkManifest(m, resourcesync.ResourceDumpManifest)
	}
	if err == nil {
		// The manifest of a package reused from an older dump has an older time,
		// and is just as good.
		l.mu.Lock()
		if at := m.Header.At; l.snap.undated && !at.IsZero() && (l.snap.At.IsZero() || at.Compare(l.snap.At) < 0) {
			l.snap.At = at
		}
		l.mu.Unlock()
		var entries int64
		entries, err = l.stageManifest(m, p.pkg, n, desired.Listed, func(uri string) bool { return concerns(l.Reader, uri) })
		l.mu.Lock()
		l.snap.entries += entries
		l.mu.Unlock()
		l.skip(p.uri, m.Unlocated())
	}
	if err == nil {
		return nil
	}
	if local := (*content.LocalError)(nil); errors.As(err, &local) {
		return local.Err
	}
	return l.broken(ctx, p.uri, err, &l.snap.Complete, depth, l.again)
}

// stageManifest stages those entries of a manifest that lists a state for which
// concerns returns true, as the n-th document. An error of the stage is a
// LocalError.
func (r *Reader) stageManifest(m *dump.Manifest, pkg, n int, class desired.Class, concerns func(uri string) bool) (int64, error) {
	out := r.Stage.Writer()
	defer out.Release()
	var pos int64
	members := 0
	for e, err := range m.Entries() {
		if err != nil {
			return pos, err
		}
		members += membersOf(&e)
		w := r.Resource(&e)
		w.Gone, w.Change = false, 0
		w.Member, w.ManifestPackage = memberOf(pkg, &e), pkg
		w.Rank = desired.Rank{Class: class, Doc: n, Pos: pos}
		pos++
		if concerns != nil && !concerns(w.URI) {
			continue
		}
		if err := out.Add(&w); err != nil {
			return pos, &content.LocalError{Err: err}
		}
	}
	reportManifest(r, m)
	r.Packages.NoteManifest(pkg, members, m.Copy())
	return pos, nil
}

func reportManifest(r *Reader, m *dump.Manifest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range m.Warnings() {
		r.Warn(m.URI, fmt.Sprintf("read %s: %s", fetch.Printable(m.URI), w))
	}
}

// NewestDump returns the index of the newest entry, if the document is an archive
// of dumps of different times, as in drafts of the standard: then only that entry
// counts (RS-RDI-02).
func NewestDump(h *resourcesync.Header, parts []resourcesync.Entry) (newest int, archive bool) {
	// The parts of one dump are written within one run, and most runs take less
	// than this.
	const apart = time.Hour
	if len(parts) < 2 || !h.At.IsZero() {
		return 0, false
	}
	oldest := parts[0].Lastmod
	for i := range parts {
		p := &parts[i]
		if !p.At.IsZero() || p.Lastmod.IsZero() {
			return 0, false
		}
		if p.Lastmod.Compare(parts[newest].Lastmod) > 0 {
			newest = i
		}
		if p.Lastmod.Compare(oldest) < 0 {
			oldest = p.Lastmod
		}
	}
	return newest, parts[newest].Lastmod.Time().Sub(oldest.Time()) >= apart
}

// openNumbered opens the manifest of the n-th package of the table; for believe see
// [Reader.openManifest].
func (r *Reader) openNumbered(ctx context.Context, n int, believe bool) (*dump.Manifest, error) {
	ref, _ := r.Packages.Get(n) // n is a number from the table
	if ref.Refused != "" {
		return nil, fmt.Errorf("refuse package %s: %s", fetch.Printable(ref.URI), ref.Refused)
	}
	r.OnOpen(ref.URI)
	return r.openManifest(ctx, ref.Entry(), believe)
}

// openManifest opens the manifest of the package that an entry of a dump describes.
// A copy of the manifest must come from a host that the Source may name.
func (r *Reader) openManifest(ctx context.Context, entry *resourcesync.Entry, believe bool) (*dump.Manifest, error) {
	return r.Opener.OpenManifest(ctx, entry, &r.Packages.Shelf, believe, func(uri string) string {
		if r.Home == nil {
			return ""
		}
		return r.Refuse(uri)
	})
}
