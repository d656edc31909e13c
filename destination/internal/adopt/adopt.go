// Package adopt makes existing files part of a mirror before anything is fetched. A
// directory that another program has filled, such as Python resync, wget or rsync,
// may contain much of the mirror's content. If the Source states a hash, it shows
// which files match. Otherwise a file is accepted if it has the length and the
// modification time that the Source states: resync compares these, and sets the
// time of every file it writes, in whole seconds.
package adopt

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"net/http"

	"lockstep/blob"
	"lockstep/destination/filename"
	"lockstep/destination/internal/bundle"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/filetime"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
)

// A Mirror adopts files for one set.
type Mirror struct {
	Files   blob.Store
	Journal journal.Journal
	Paths   *filename.Mapping
	Counts  saved.Counts
	Set     int    // number of the set
	In      string // names the mirror in the middle of a sentence; may be empty

	Any     bool // adopt files under other names, too, and by length and time
	Replace bool // files that do not match become part of the mirror and are then replaced
	DryRun  bool // change nothing

	// Restored replaces, like Replace, files that do not match: the Journal is older than the files. Those of
	// resources that are pending stay: another program's file may be why.
	Restored bool

	All bool // verify all hashes that the Source states, not only the strongest

	Stops  func(error) bool                            // whether an error of the store must end the run
	Count  func(byTime bool)                           // counts a file; byTime: no hash confirms it
	Report func(a *plan.Action, row *journal.Held)     // reports a file that became part of the mirror
	Record func(context.Context, []journal.Held) error // records rows
}

// recordCount is the number of rows recorded together.
const recordCount = 4096

// An adoption is one pass over the resources of a plan.
type adoption struct {
	m     *Mirror
	sums  content.Hashers
	taken map[uint64]struct{} // hashes of the names of files that are held
	seed  maphash.Seed
	rows  []journal.Held
	ready []copied // not committed yet
	found Adopted  // in a dry run

	pending map[uint64]struct{} // hashes of the URIs of resources that are pending, if the Journal was restored
}

// Adopted lists the files that a dry run would have adopted.
type Adopted struct {
	Files, Bytes int64
	uris         map[uint64]struct{} // by their hashes
	seed         maphash.Seed
}

func (n *Adopted) add(a *plan.Action) {
	if n.uris == nil {
		n.uris, n.seed = map[uint64]struct{}{}, maphash.MakeSeed()
	}
	n.uris[maphash.String(n.seed, a.URI)] = struct{}{}
	n.Files++
	n.Bytes += max(a.Length, 0)
}

// Has reports whether n contains the resource of an action.
func (n *Adopted) Has(a *plan.Action) bool {
	if n.uris == nil {
		return false
	}
	_, ok := n.uris[maphash.String(n.seed, a.URI)]
	return ok
}

// A copied file is a matching file that is being copied to its name in the mirror.
type copied struct {
	action plan.Action
	row    journal.Held
	writer blob.Writer
	byTime bool
}

// copyBatch is the number of copies committed together.
const copyBatch = 64

// A foundFile is the result of looking for a file.
type foundFile struct {
	row   journal.Held
	right bool
	wrong bool   // a file that does not match is at the path, and is to be replaced
	from  string // the other name under which the file was found

	byTime bool // it matches by length and time, and no hash confirms it
}

// Run adopts the matching files of resources that a plan would fetch and that the
// mirror does not hold. With Replace, files that do not match become part of the
// mirror, too, and are replaced later. A dry run changes nothing and returns the
// files that would have been adopted.
func (m *Mirror) Run(ctx context.Context, actions iter.Seq2[plan.Action, error]) (Adopted, error) {
	d := &adoption{m: m, sums: content.Hashers{All: m.All}, taken: map[uint64]struct{}{}, seed: maphash.MakeSeed()}
	if m.Any {
		for h, err := range m.Journal.Held(ctx, "", "") {
			if err != nil {
				return Adopted{}, err
			}
			d.taken[maphash.String(d.seed, h.Path)] = struct{}{}
		}
	}
	if m.Restored {
		d.pending = map[uint64]struct{}{}
		for o, err := range m.Journal.Owed(ctx, m.Set) {
			if err != nil {
				return Adopted{}, err
			}
			d.pending[maphash.String(d.seed, o.URI)] = struct{}{}
		}
	}
	candidates := func(yield func(plan.Action, error) bool) {
		for a, err := range actions {
			if (err != nil || a.Verb == plan.Fetch && d.isCandidate(&a)) && !yield(a, err) {
				return
			}
		}
	}
	err := bundle.Each(ctx, candidates, d.look, func(a *plan.Action, f *foundFile) error { return d.book(ctx, a, f) })
	if err == nil && len(d.ready) > 0 {
		err = d.commit(ctx)
	}
	for i := range d.ready {
		_ = d.ready[i].writer.Close() // not needed any more
	}
	if err == nil {
		err = d.record(ctx, true)
	}
	return d.found, err
}

// look looks for a file of a.
func (d *adoption) look(ctx context.Context, a *plan.Action) (foundFile, error) {
	own, err := d.m.Paths.Path(a.URI)
	if err != nil {
		return foundFile{}, nil // fetching it reports the error
	}
	if !d.m.Any {
		return d.lookOwn(ctx, a, own)
	}
	var f foundFile
	for path := range Names(d.m.Paths, a.URI) {
		if _, ours := d.taken[maphash.String(d.seed, path)]; ours {
			continue
		}
		l, err := Look(ctx, &d.sums, d.m.Files, path, &a.Resource)
		if ctx.Err() != nil {
			return foundFile{}, ctx.Err()
		}
		h := plan.NewHeld(a, d.m.Set, own)
		h.Length = l.Length
		if err == nil && !l.Verified && !l.Modified.IsZero() {
			h.Modified = a.Lastmod.Time().UTC().Format(http.TimeFormat) // the time is what makes the file match
		}
		switch {
		case err == nil && path == own:
			h.Hashes = l.Hashes
			h.SetFile(&blob.Info{ModTime: l.Modified, Version: l.tag})
			return foundFile{row: h, right: true, byTime: !l.Verified}, nil
		case err == nil && !f.wrong:
			h.Hashes = l.Hashes
			return foundFile{row: h, right: true, byTime: !l.Verified, from: path}, nil
		case path == own && d.replaces(a) && isWrong(err):
			f = foundFile{row: h, wrong: true}
		}
	}
	return f, nil
}

// isCandidate reports whether the file of a resource to be fetched may exist
// already: the Journal does not have the resource, or its row is no longer true.
func (d *adoption) isCandidate(a *plan.Action) bool {
	return !a.IsHeld() || !d.m.Any && len(a.Held.Hashes) == 0
}

// lookOwn looks for the file of a at its own path, and accepts it only if a hash
// matches.
func (d *adoption) lookOwn(ctx context.Context, a *plan.Action, own string) (foundFile, error) {
	if a.IsHeld() {
		own = a.Held.Path
	}
	l, err := Look(ctx, &d.sums, d.m.Files, own, &a.Resource)
	if ctx.Err() != nil {
		return foundFile{}, ctx.Err()
	}
	h := plan.NewHeld(a, d.m.Set, own)
	h.Length = l.Length
	if (err == nil && !l.Verified || isWrong(err)) && !a.IsHeld() && d.replaces(a) {
		return foundFile{row: h, wrong: true}, nil
	}
	if err != nil || !l.Verified {
		return foundFile{}, nil // it is fetched, or reported as occupying the path
	}
	h.Hashes = l.Hashes
	h.SetFile(&blob.Info{ModTime: l.Modified, Version: l.tag})
	return foundFile{row: h, right: true}, nil
}

// replaces reports whether a file that does not match is replaced.
func (d *adoption) replaces(a *plan.Action) bool {
	_, pending := d.pending[maphash.String(d.seed, a.URI)]
	return d.m.Replace || d.m.Restored && !pending
}

func isWrong(err error) bool {
	var wrong *content.Error
	return errors.As(err, &wrong) || errors.Is(err, ErrUnverifiable)
}

// book records a file that belongs to the mirror from now on.
func (d *adoption) book(ctx context.Context, a *plan.Action, f *foundFile) error {
	switch {
	case d.m.DryRun:
		if f.right {
			d.found.add(a)
			d.m.Count(f.byTime)
		}
		return nil
	case f.from != "":
		return d.copy(ctx, a, f)
	case f.right:
		d.take(ctx, a, &f.row, f.byTime)
	case f.wrong:
		d.rows = append(d.rows, f.row)
		d.m.Counts[d.m.Set]++
	}
	return d.record(ctx, false)
}

// take makes a file part of the mirror.
func (d *adoption) take(ctx context.Context, a *plan.Action, row *journal.Held, byTime bool) {
	filetime.Set(ctx, d.m.Files, row)
	d.rows = append(d.rows, *row)
	if !plan.HasSet(a.Held.Sets, d.m.Set) {
		d.m.Counts[d.m.Set]++
	}
	d.m.Count(byTime)
	d.m.Report(a, row)
}

// copy copies a matching file to its name in the mirror. It compares the copy with
// what was read before, because another process may change the original. Content
// that cannot be copied is fetched, which reports the error.
func (d *adoption) copy(ctx context.Context, a *plan.Action, f *foundFile) error {
	store, h := d.m.Files, &f.row
	if _, err := store.Stat(ctx, h.Path); !errors.Is(err, blob.ErrNotExist) {
		return ctx.Err()
	}
	r, err := store.Open(ctx, f.from)
	if err != nil {
		return ctx.Err()
	}
	defer r.Close()
	w, err := store.Create(ctx, h.Path)
	if err != nil {
		return ctx.Err()
	}
	algs := content.Strongest(h.Hashes)
	sums := d.sums.Get(algs)
	defer d.sums.Put(algs, sums)
	n, err := content.Copy(w, sums, content.WithContext(ctx, r))
	if err != nil || !plan.SameContent(h, &journal.Held{Length: n, Hashes: sums.Sum()}) {
		_ = w.Close() // the copy does not match
		return ctx.Err()
	}
	if !h.Lastmod.IsZero() {
		w.SetModTime(h.Lastmod)
	}
	if d.ready = append(d.ready, copied{*a, *h, w, f.byTime}); len(d.ready) < copyBatch {
		return nil
	}
	return d.commit(ctx)
}

// commit makes copies visible. After a crash behind it, the next run finds that the
// files match.
func (d *adoption) commit(ctx context.Context) error {
	ws := make([]blob.Writer, len(d.ready))
	for i := range d.ready {
		ws[i] = d.ready[i].writer
	}
	n := len(ws)
	err := d.m.Files.Commit(ctx, ws...)
	var ce *blob.CommitError
	if errors.As(err, &ce) && ce.Done < n && !d.m.Stops(err) {
		n, err = ce.Done, nil // fetching the others reports the error
	}
	if err != nil {
		return fmt.Errorf("store what is taken over%s: %w", d.m.In, err)
	}
	for i := range d.ready {
		if i < n {
			d.take(ctx, &d.ready[i].action, &d.ready[i].row, d.ready[i].byTime)
		} else {
			_ = ws[i].Close() // it would fail again
		}
	}
	d.ready = nil
	return d.record(ctx, false)
}

// record records the adopted rows if there are many of them or all is set.
func (d *adoption) record(ctx context.Context, all bool) error {
	if n := len(d.rows); n == 0 || !all && n < recordCount {
		return nil
	}
	rows := d.rows
	d.rows = nil
	return d.m.Record(ctx, rows)
}
