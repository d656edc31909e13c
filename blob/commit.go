package blob

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"syscall"
)

// Commit makes the blobs visible: the bytes of all are synced, then each is
// renamed into place, then the directories are synced in which a name changed.
// A kill between any two steps leaves temporary files, which Create and Sweep
// remove, and whole blobs.
func (d *Dir) Commit(ctx context.Context, ws ...Writer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(ws) == 0 {
		return nil
	}
	batch, err := d.batch(ws)
	if err != nil {
		return err
	}
	top, err := d.root(false)
	if err != nil {
		return &CommitError{Name: batch[0].name, Err: cause(err)}
	}
	if err := d.sync.bytes(top, batch); err != nil {
		return err
	}
	w := d.walker(top)
	defer w.forget()
	done := 0
	for _, t := range batch {
		if err = place(w, t); err != nil {
			err = &CommitError{Done: done, Name: t.name, Err: cause(err)}
			unmake(w)
			break
		}
		d.names.release(t.base)
		done++
	}
	// Visible blobs must be durable, even if not all are visible.
	if err1 := d.sync.names(top, w, batch[:done]); err == nil {
		err = err1
	}
	return err
}

// batch returns the Writers as those of d, after checking that all are open and
// none is given twice.
func (d *Dir) batch(ws []Writer) ([]*dirWriter, error) {
	batch := make([]*dirWriter, len(ws))
	seen := make(map[*dirWriter]struct{}, len(ws))
	for i, w := range ws {
		t, ok := w.(*dirWriter)
		if !ok || t.store != d {
			return nil, &CommitError{Name: w.Name(), Err: errStranger}
		}
		if _, twice := seen[t]; twice || !t.isOpen() {
			return nil, &CommitError{Name: t.name, Err: fs.ErrClosed}
		}
		seen[t] = struct{}{}
		batch[i] = t
	}
	return batch, nil
}

// place renames a temporary file to its final name.
func place(w *walker, t *dirWriter) error {
	dir, base := split(t.name)
	for try := 1; ; try++ {
		in, err := w.folder(dir, true)
		if err == nil {
			err = placeIn(in, base, t)
		}
		if err == nil {
			t.did(traceRename, t.name)
			t.state = writerCommitted
			if t.file != nil {
				_ = t.file.Close() // it is already synced
			}
			return nil
		}
		// The directory may have been removed as empty since it was opened. Or there
		// are too many open files, and the remembered directories can be closed.
		gone, many := errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EMFILE) && len(w.open) > 0
		if try >= maxTries || !many && (!gone || !t.there()) {
			return err
		}
		w.forget()
	}
}

// placeIn never replaces an object that is not a blob: checking an existing
// name costs little, and replacing a stranger's link would lose it.
func placeIn(in *folder, base string, t *dirWriter) error {
	if localName(base) && renameNew(t.tmp, t.base, in, base) == nil {
		return nil
	}
	switch _, err := in.lstat(base); {
	case err == nil && t.alone:
		return fs.ErrExist
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	err := rename(t.tmp, t.base, in, base)
	if errors.Is(err, syscall.EISDIR) {
		return ErrDirectory
	}
	return err
}

// there reports whether the temporary file still exists.
func (w *dirWriter) there() bool {
	_, err := w.tmp.root.Lstat(w.base)
	return err == nil
}

// unmake removes the directories that a batch has created but not used.
func unmake(w *walker) {
	for _, dir := range slices.Backward(w.made) {
		parent, base := split(dir)
		if in, err := w.folder(parent, false); err == nil {
			_ = removeDir(in, base) // in use if it fails
		}
	}
}
