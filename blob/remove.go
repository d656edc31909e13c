package blob

import (
	"context"
	"errors"
	"io/fs"
	"strings"
)

// Remove removes blobs, then the directories that become empty, up to but not
// including the root, and syncs the directories that changed.
func (d *Dir) Remove(ctx context.Context, names ...string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	top, err := d.root(false)
	if errors.Is(err, ErrNotExist) {
		return nil
	}
	if err != nil {
		return nameError("remove", strings.Join(names[:min(1, len(names))], ""), err)
	}
	w := d.walker(top)
	defer w.forget()
	changed := make(map[string]struct{})
	var errs []error
	for _, name := range names {
		err := d.opts.check(name)
		if err == nil {
			err = removeBlob(w, name, changed)
		}
		if err != nil {
			errs = append(errs, nameError("remove", name, err))
		}
	}
	if !d.opts.KeepEmpty {
		prune(w, d.opts.Tmp, changed)
	}
	w.forget() // some of it may have been removed
	if name, err := d.sync.dirs(top, w, changed); err != nil {
		errs = append(errs, nameError("sync", name, err))
	}
	return errors.Join(errs...)
}

// removeBlob removes a blob, if it exists, and adds its directory to changed.
func removeBlob(w *walker, name string, changed map[string]struct{}) error {
	dir, base := split(name)
	in, err := w.folder(dir, false)
	if err == nil {
		err = in.remove(base)
	}
	if err != nil && !absent(err) {
		return err
	}
	w.trace.did(traceRemove, name)
	// Even if the blob is missing: an earlier Remove may have stopped at this
	// point.
	changed[dir] = struct{}{}
	return nil
}

// prune removes those of the directories that are empty, and parents that
// become empty, but not tmp and its parents. The system refuses to remove others.
func prune(w *walker, tmp string, dirs map[string]struct{}) {
	for dir := range dirs {
		for dir != "" && dir != tmp && !strings.HasPrefix(tmp, dir+"/") {
			parent, base := split(dir)
			in, err := w.folder(parent, false)
			if err == nil {
				err = removeDir(in, base)
			}
			if err == nil {
				w.trace.did(traceRemove, dir)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				break
			}
			delete(dirs, dir)
			dirs[parent] = struct{}{}
			dir = parent
		}
	}
}

// removeDir removes an empty directory, and nothing else: Root.Remove would
// also remove a file or link that has replaced it.
func removeDir(in *folder, base string) error {
	info, err := in.root.Lstat(base)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fs.ErrInvalid
	}
	return in.root.Remove(base)
}
