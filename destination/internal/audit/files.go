package audit

import (
	"context"
	"iter"
	"strings"

	"lockstep/blob"
	"lockstep/destination/filename"
	"lockstep/destination/internal/scratch"
	"lockstep/destination/journal"
	"lockstep/internal/extsort"
)

// foreignFiles calls each for the files in a store that do not belong to the
// mirror: those whose names no resource has. The names we assigned are sorted
// externally, since there may be many, and compared in one pass with the files.
func foreignFiles(ctx context.Context, store blob.Store, names *extsort.Sorter, each func(blob.Info)) error {
	next, stop := iter.Pull2(names.Sorted(ctx))
	defer stop()
	name, err, more := next()
	for info, lerr := range store.List(ctx, "") {
		if lerr != nil {
			return lerr
		}
		for err == nil && more && string(name.Key) < info.Name {
			name, err, more = next()
		}
		if err != nil {
			return err
		}
		if strings.HasPrefix(info.Name, filename.StateDir+"/") || more && string(name.Key) == info.Name {
			continue
		}
		each(info)
	}
	return err
}

// Unrecorded calls each for the files in a store that are of no resource that the Journal has.
func Unrecorded(ctx context.Context, store blob.Store, j journal.Journal, each func(blob.Info)) error {
	names := scratch.RoomOf(j).Sorter()
	defer names.Close()
	if err := addNames(ctx, j, names, nil, true); err != nil {
		return err
	}
	return foreignFiles(ctx, store, names, each)
}

// addNames adds the names of the files that a killed run was writing, and, if held
// is set, of all files that are held.
func addNames(ctx context.Context, j journal.Journal, names *extsort.Sorter, unsettled map[string]journal.Held, held bool) error {
	w := names.Writer()
	defer names.Release(w)
	for _, h := range unsettled {
		if err := w.Add([]byte(h.Path), nil); err != nil {
			return err
		}
	}
	if !held {
		return nil
	}
	for h, err := range j.Held(ctx, "", "") {
		if err == nil {
			err = w.Add([]byte(h.Path), nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
