package destination

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"net/http"
	"time"

	"lockstep/blob"
	"lockstep/destination/filename"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/planner"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// Files that exist already
//
// A directory that another program has filled, such as Python resync, wget or
// rsync, may contain much of what the mirror needs. A hash shows which of its
// files are right, if the Source states one. If it does not, a file is accepted
// that has the length and the modification time the Source states: that is what
// resync compares, which sets the time of every file it writes, in whole
// seconds.

// errNoTelling says that nothing shows whether a file is right.
var errNoTelling = errors.New("the Source states neither a hash nor a length and time to verify it by")

// filesOf yields where the file of uri may be that another program has
// written: under its own name, and under one in which nothing is decoded.
func (d *Destination) filesOf(paths *filename.Mapping, uri string) iter.Seq[string] {
	return func(yield func(string) bool) {
		own, err := paths.Path(uri)
		if err == nil && !yield(own) {
			return
		}
		if p := paths.Undecoded(uri); p != "" && p != own {
			yield(p)
		}
	}
}

// A likely file is one that may hold what w describes.
type likely struct {
	length   int64
	modified time.Time
	hashes   resourcesync.Hashes
	verified bool // by a hash
	tag      string
}

// lookAt reads the file at path and says whether it is what w describes: a
// [ContentError] says that it is not, errNoTelling that there is no telling.
func lookAt(ctx context.Context, p *content.Hashers, s blob.Store, path string, w *desired.Resource) (likely, error) {
	r, err := s.Open(ctx, path)
	if err != nil {
		return likely{}, err
	}
	defer r.Close()
	info := r.Info()
	l := likely{length: info.Size, modified: info.ModTime, tag: info.Version}
	algs := content.Algorithms(w.Hashes)
	hashed := algs != content.Algorithms(nil) || w.Hashes.Get(resourcesync.SHA256) != ""
	if !hashed {
		if err := resembles(w, &info); err != nil {
			return l, err
		}
	}
	if l.length, l.hashes, err = p.Sum(ctx, r, algs); err != nil {
		return l, err
	}
	if hashed {
		_, err = content.Verify(w.Description(), l.length, l.hashes)
		l.verified = err == nil
	}
	return l, err
}

// resembles compares what can be compared without reading the file.
func resembles(w *desired.Resource, info *blob.Info) error {
	switch {
	case w.Length >= 0 && w.Length != info.Size:
		return &content.Error{URI: w.URI, What: "length", Want: fmt.Sprint(w.Length), Got: fmt.Sprint(info.Size)}
	case w.Lastmod.IsZero() || info.Version != "": // such stores do not keep the time
		return errNoTelling
	}
	stated, here := w.Lastmod.Time(), info.ModTime
	if !here.Equal(stated) && !here.Equal(stated.Truncate(time.Second)) && !desired.SameLastmod(here.Truncate(time.Microsecond), w.Lastmod) {
		return errNoTelling
	}
	if w.Change != 0 && here.Nanosecond() == 0 {
		return errNoTelling // it may have changed twice in that second
	}
	return nil
}

// An adoption is a run's taking over of files, before anything is fetched: what
// is right is held from then on, and no way to get content sees it.
type adoption struct {
	*setRun
	paths *filename.Mapping
	sums  content.Hashers
	taken map[uint64]struct{} // hashes of the names of files that are held
	seed  maphash.Seed
	batch journal.Batch
	ready []copied // not committed yet
	found adopted  // in a dry run
}

// adopted is what a dry run would have adopted.
type adopted struct {
	files, bytes int64
	uris         map[uint64]struct{} // by their hashes
	seed         maphash.Seed
}

func (n *adopted) add(a *plan.Action) {
	if n.uris == nil {
		n.uris, n.seed = map[uint64]struct{}{}, maphash.MakeSeed()
	}
	n.uris[maphash.String(n.seed, a.URI)] = struct{}{}
	n.files++
	n.bytes += max(a.Length, 0)
}

// has reports whether a is among it.
func (n *adopted) has(a *plan.Action) bool {
	if n.uris == nil {
		return false
	}
	_, ok := n.uris[maphash.String(n.seed, a.URI)]
	return ok
}

// from takes it out of a plan, which knows nothing of it.
func (n *adopted) from(t *planner.Tally) {
	t.Created -= n.files
	t.Unchanged += n.files
	t.Bytes -= n.bytes
}

// A copied file is one that is right and gets the name it has here.
type copied struct {
	action plan.Action
	row    journal.Held
	writer blob.Writer
	byTime bool
}

// copyBatch is how many copies are committed together.
const copyBatch = 64

// A foundFile is the result of looking for a file.
type foundFile struct {
	row   journal.Held
	right bool
	wrong bool   // something else is there, and is to be replaced
	from  string // another name, under which it was found

	byTime bool // it is right by its length and time, which no hash confirms
}

// adopt takes over the files that are right of the resources p would fetch and
// that are not held. With Options.Replace those that are not right become ours,
// too, to be replaced. In a dry run nothing is done, and what is right returned.
func (r *setRun) adopt(ctx context.Context, p *planner.Planner, paths *filename.Mapping) (adopted, error) {
	d := &adoption{setRun: r, paths: paths, taken: map[uint64]struct{}{}, seed: maphash.MakeSeed()}
	if r.d.opts.Adopt {
		for h, err := range r.d.journal.Held(ctx, "", "") {
			if err != nil {
				return adopted{}, err
			}
			d.taken[maphash.String(d.seed, h.Path)] = struct{}{}
		}
	}
	fresh := func(yield func(plan.Action, error) bool) {
		for a, err := range p.Actions(ctx, r.stage) {
			if (err != nil || a.Verb == plan.Fetch && d.isCandidate(&a)) && !yield(a, err) {
				return
			}
		}
	}
	if !r.d.opts.DryRun {
		if err := r.begin(ctx); err != nil {
			return adopted{}, err
		}
	}
	err := inBundles(ctx, fresh, d.look, func(a *plan.Action, f *foundFile) error { return d.book(ctx, a, f) })
	if err == nil && len(d.ready) > 0 {
		err = d.commit(ctx)
	}
	for i := range d.ready {
		_ = d.ready[i].writer.Close() // not wanted any more
	}
	if err == nil {
		err = d.record(ctx, true)
	}
	return d.found, err
}

// look looks for a file of a.
func (d *adoption) look(ctx context.Context, a *plan.Action) (foundFile, error) {
	own, err := d.paths.Path(a.URI)
	if err != nil {
		return foundFile{}, nil // fetching it reports the error
	}
	if !d.d.opts.Adopt {
		return d.lookOwn(ctx, a, own)
	}
	var f foundFile
	for path := range d.d.filesOf(d.paths, a.URI) {
		if _, ours := d.taken[maphash.String(d.seed, path)]; ours {
			continue
		}
		l, err := lookAt(ctx, &d.sums, d.d.store, path, &a.Resource)
		if ctx.Err() != nil {
			return foundFile{}, ctx.Err()
		}
		h := plan.NewHeld(a, d.set.Number, own)
		h.Length = l.length
		if err == nil && !l.verified && !l.modified.IsZero() {
			h.Modified = a.Lastmod.Time().UTC().Format(http.TimeFormat) // that is what makes it right
		}
		switch {
		case err == nil && path == own:
			h.Hashes = l.hashes
			h.SetFile(&blob.Info{ModTime: l.modified, Version: l.tag})
			return foundFile{row: h, right: true, byTime: !l.verified}, nil
		case err == nil && !f.wrong:
			h.Hashes = l.hashes
			return foundFile{row: h, right: true, byTime: !l.verified, from: path}, nil
		case path == own && d.d.opts.Replace && isWrong(err):
			f = foundFile{row: h, wrong: true}
		}
	}
	return f, nil
}

// isCandidate reports whether the file of a resource that is to be fetched may
// exist already: the Journal does not have it, or what the Journal says is no
// longer true.
func (d *adoption) isCandidate(a *plan.Action) bool {
	return !a.IsHeld() || !d.d.opts.Adopt && len(a.Held.Hashes) == 0
}

// lookOwn looks for the file of a in its own place, and takes over only what a
// hash proves.
func (d *adoption) lookOwn(ctx context.Context, a *plan.Action, own string) (foundFile, error) {
	if a.IsHeld() {
		own = a.Held.Path
	}
	l, err := lookAt(ctx, &d.sums, d.d.store, own, &a.Resource)
	if ctx.Err() != nil {
		return foundFile{}, ctx.Err()
	}
	if err != nil || !l.verified {
		return foundFile{}, nil // it is fetched, or named as in the way
	}
	h := plan.NewHeld(a, d.set.Number, own)
	h.Length, h.Hashes = l.length, l.hashes
	h.SetFile(&blob.Info{ModTime: l.modified, Version: l.tag})
	return foundFile{row: h, right: true}, nil
}

func isWrong(err error) bool {
	var wrong *content.Error
	return errors.As(err, &wrong) || errors.Is(err, errNoTelling)
}

// book records what belongs to the mirror from now on.
func (d *adoption) book(ctx context.Context, a *plan.Action, f *foundFile) error {
	switch {
	case d.d.opts.DryRun:
		if f.right {
			d.found.add(a)
			d.report.By.Adopted++
			d.countByTime(f.byTime)
		}
		return nil
	case f.from != "":
		return d.copy(ctx, a, f)
	case f.right:
		d.take(a, &f.row)
		d.countByTime(f.byTime)
	case f.wrong:
		d.batch.Put = append(d.batch.Put, f.row)
		d.counts[d.set.Number]++
	}
	return d.record(ctx, false)
}

// countByTime counts files that were adopted without a hash.
func (d *adoption) countByTime(byTime bool) {
	if byTime {
		d.report.By.AdoptedByTime++
	}
}

// take records and reports a file as part of the mirror.
func (d *adoption) take(a *plan.Action, row *journal.Held) {
	d.batch.Put = append(d.batch.Put, *row)
	if !plan.HasSet(a.Held.Sets, d.set.Number) {
		d.counts[d.set.Number]++
	}
	d.report.By.Adopted++
	c := Change{
		Set: d.set.Name, URI: a.URI, Kind: plan.KindOf(a), Path: row.Path, Length: row.Length, Type: a.Type,
		Hashes: row.Hashes, Lastmod: a.Lastmod.Time(), Datetime: a.Event.Time(),
	}
	d.out.Add(c)
	d.d.emit(c.event())
}

// copy copies a file that is right to its name in the mirror. It compares the
// copy with what was read before: the original may be changed by others. What
// cannot be copied is fetched, which reports the error.
func (d *adoption) copy(ctx context.Context, a *plan.Action, f *foundFile) error {
	store, h := d.d.store, &f.row
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
	algs := content.Algorithms(h.Hashes)
	sums := d.sums.Get(algs)
	defer d.sums.Put(algs, sums)
	n, err := content.Copy(w, sums, content.WithContext(ctx, r))
	if err != nil || !plan.SameContent(h, &journal.Held{Length: n, Hashes: sums.Sum()}) {
		_ = w.Close() // not wanted
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

// commit makes copies visible. A crash behind it leaves files that are found
// right by the next run.
func (d *adoption) commit(ctx context.Context) error {
	ws := make([]blob.Writer, len(d.ready))
	for i := range d.ready {
		ws[i] = d.ready[i].writer
	}
	n := len(ws)
	err := d.d.store.Commit(ctx, ws...)
	var ce *blob.CommitError
	if errors.As(err, &ce) && ce.Done < n && !isFatal(err) {
		n, err = ce.Done, nil // fetching the others reports the error
	}
	if err != nil {
		return fmt.Errorf("store what is taken over%s: %w", d.d.inDest(), err)
	}
	for i := range d.ready {
		if i < n {
			d.take(&d.ready[i].action, &d.ready[i].row)
			d.countByTime(d.ready[i].byTime)
		} else {
			_ = ws[i].Close() // it would fail again
		}
	}
	d.ready = nil
	return d.record(ctx, false)
}

// record writes the adopted rows when there are many, or if all are to be
// written.
func (d *adoption) record(ctx context.Context, all bool) error {
	if n := len(d.batch.Put); n == 0 || !all && n < 4*batchCount {
		return nil
	}
	b := d.batch
	b.Save = map[string][]byte{saved.DocCounts: saved.Encode(d.counts)}
	news := d.out.Take()
	d.out.Save(b.Save, news)
	d.batch = journal.Batch{}
	if err := d.keep.AddPast(ctx, &b); err != nil {
		return err
	}
	if err := d.keep.Record(ctx, d.d.journal, b); err != nil {
		return fmt.Errorf("record what is taken over: %w", err)
	}
	return d.out.Saved(ctx, news)
}
