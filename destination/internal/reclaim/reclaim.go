// Package reclaim decides whether the files of a directory are the mirror's own,
// although its Journal is new.
//
// A mirror whose state is lost, or older than its files, has the right bytes on disk.
// They become part of the mirror again without a flag where the directory is the
// mirror's own: its state names this Source, or it contains no file that the Source
// does not list. A file is adopted only at its own path, and only if a hash proves that
// it is right, or, where the Source states none, its bytes are those that the Source
// serves: neither length nor time proves that.
package reclaim

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strings"

	"lockstep/blob"
	"lockstep/destination/filename"
	"lockstep/destination/internal/scratch"
	"lockstep/destination/internal/stage"
	"lockstep/destination/journal"
	"lockstep/internal/extsort"
)

// A Directory has the files of a mirror.
type Directory struct {
	Files   blob.Store
	Journal journal.Journal // lends scratch space
	In      string          // names the mirror in the middle of a sentence; may be empty
}

// An Ownership says whether files that are right can only be the mirror's.
type Ownership struct {
	Open bool // not decided: the Journal was new when the run began
	Ours bool // they can
}

// IsOpen reports whether ownership is yet to be decided: there are files, and nothing
// is known about them.
func (o *Ownership) IsOpen(ctx context.Context, d Directory) (bool, error) {
	if !o.Open || o.Ours {
		return false, nil
	}
	empty, err := d.isEmpty(ctx)
	o.Open = !empty
	return !empty && err == nil, err
}

// Decide decides ownership, unless that was done: the files are the mirror's if the
// Source lists a resource for each of them. The function paths returns the names of
// files, or nil if they are unknown; list adds the URIs of all resources that the
// Source lists, and reports whether it could.
func (o *Ownership) Decide(ctx context.Context, d Directory, paths func(context.Context) (*filename.Mapping, error),
	list func(ctx context.Context, to *extsort.Sorter) (known bool, err error)) error {
	open, err := o.IsOpen(ctx, d)
	if err != nil || !open {
		return err
	}
	o.Open = false
	p, err := paths(ctx)
	if err != nil || p == nil {
		return err
	}
	o.Ours, err = d.isListed(ctx, p, list)
	return err
}

// isEmpty reports whether there are no files.
func (d *Directory) isEmpty(ctx context.Context) (bool, error) {
	for _, err := range d.names(ctx) {
		return false, err
	}
	return true, nil
}

// isListed reports whether each file is that of a resource of the list.
func (d *Directory) isListed(ctx context.Context, paths *filename.Mapping, list func(context.Context, *extsort.Sorter) (bool, error)) (all bool, err error) {
	here, listed := scratch.RoomOf(d.Journal).Sorter(), scratch.RoomOf(d.Journal).Sorter()
	defer func() {
		for _, sorted := range []*extsort.Sorter{here, listed} {
			if cerr := sorted.Close(); err == nil {
				err = cerr
			}
		}
	}()
	w := here.Writer()
	for name, err := range d.names(ctx) {
		if err != nil {
			return false, err
		}
		uri, err := paths.URI(name)
		if err != nil {
			return false, nil // no resource has such a file
		}
		if err := w.Add([]byte(uri), nil); err != nil {
			return false, err
		}
	}
	here.Release(w)
	if known, err := list(ctx, listed); err != nil || !known {
		return false, err
	}
	next, stop := iter.Pull2(listed.Sorted(ctx))
	defer stop()
	at, err, more := next()
	for file, ferr := range here.Sorted(ctx) {
		for err == nil && more && string(at.Key) < string(file.Key) {
			at, err, more = next()
		}
		if err != nil || ferr != nil || !more || string(at.Key) != string(file.Key) {
			return false, cmp.Or(err, ferr)
		}
	}
	return true, nil
}

// names yields the names of the files, except those of the state.
func (d *Directory) names(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for info, err := range d.Files.List(ctx, "") {
			if err == nil && strings.HasPrefix(info.Name, filename.StateDir+"/") {
				continue
			}
			if err != nil {
				err = fmt.Errorf("list the files%s: %w", d.In, err)
			}
			if !yield(info.Name, err) || err != nil {
				return
			}
		}
	}
}

// AddStaged adds the URIs of the staged resources, except those that are gone.
func AddStaged(ctx context.Context, staged *stage.Stage, to *extsort.Sorter) error {
	out := to.Writer()
	defer to.Release(out)
	for w, err := range staged.Resources(ctx) {
		if err == nil && w.Gone && w.Instead == "" {
			continue
		}
		if err == nil {
			err = out.Add([]byte(w.URI), nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
