package blob

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"
)

// syncEach is the maximum number of files, or directories, that are synced one
// by one. For more, the whole file system is synced at once, if it supports
// that: one flush instead of hundreds.
const syncEach = 8

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
	if err := d.syncBytes(top, batch); err != nil {
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
		d.release(t.base)
		done++
	}
	// Visible blobs must be durable, even if not all are visible.
	if err1 := d.syncNames(top, w, batch[:done]); err == nil {
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

// syncBytes makes the temporary files durable.
func (d *Dir) syncBytes(top *folder, batch []*dirWriter) error {
	sealed := -1
	for i, t := range batch {
		if err := t.publish(); err != nil {
			return &CommitError{Name: t.name, Err: cause(err)}
		}
		if t.state == writerSealed {
			sealed = i
			continue // its time is set
		}
		if t.mod.IsZero() {
			continue
		}
		if err := setModTime(t.file, t.tmp.root, t.base, t.mod); err != nil {
			return &CommitError{Name: t.name, Err: cause(err)}
		}
	}
	if len(batch) > syncEach || sealed >= 0 {
		err := d.syncAll(top)
		if err == nil {
			return nil
		}
		if sealed >= 0 && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EPERM) {
			// A sealed file has no open handle that could report its write error.
			return &CommitError{Name: batch[sealed].name, Err: cause(err)}
		}
		if err := unseal(batch); err != nil {
			return err
		}
	}
	// Syncing them one after the other would cost one flush of the disk each;
	// concurrent syncs often share one.
	errs := make([]error, len(batch))
	var wg sync.WaitGroup
	for part := range slices.Chunk(indices(len(batch)), (len(batch)+syncEach-1)/syncEach) {
		wg.Go(func() {
			for _, i := range part {
				if errs[i] = batch[i].file.Sync(); errs[i] == nil {
					d.trace.did(traceSync, batch[i].path())
				}
			}
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			return &CommitError{Name: batch[i].name, Err: cause(err)}
		}
	}
	return nil
}

// unseal opens files that were closed in the expectation that the whole file
// system can be synced.
func unseal(batch []*dirWriter) error {
	for _, t := range batch {
		if t.state != writerSealed || t.file != nil {
			continue
		}
		f, _, err := t.tmp.open(t.base, os.O_RDWR)
		if err != nil {
			return &CommitError{Name: t.name, Err: cause(err)}
		}
		t.file = f
	}
	return nil
}

func indices(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// syncAll syncs the whole file system; if it returns nil, all data has
// certainly been written. Linux reports a write error only to the first handle
// that syncs after it, so after one error every file is synced by itself from
// then on: its own open handle has not reported the error yet.
func (d *Dir) syncAll(top *folder) error {
	d.syncMu.Lock()
	defer d.syncMu.Unlock()
	if d.syncErr != nil {
		return d.syncErr
	}
	f, err := top.handle()
	if err == nil {
		err = syncfs(f)
	}
	if err == nil {
		d.trace.did(traceSyncAll)
	}
	if err != nil {
		d.syncErr = err
		d.noClose.Store(true)
	}
	return err
}

// mayClose reports whether files can be closed before they are synced.
func (d *Dir) mayClose() bool { return syncfsTells() && !d.noClose.Load() }

// place renames a temporary file to its final name.
func place(w *walker, t *dirWriter) error {
	dir, base := split(t.name)
	for try := 1; ; try++ {
		in, err := w.folder(dir, true)
		if err == nil {
			err = placeIn(in, base, t)
		}
		if err == nil {
			t.store.trace.did(traceRename, t.path(), t.name)
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
	if _, err := in.lstat(base); err != nil && !errors.Is(err, fs.ErrNotExist) {
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

// syncNames makes the names of a batch durable.
func (d *Dir) syncNames(top *folder, w *walker, batch []*dirWriter) error {
	dirs := make(map[string]struct{})
	for _, t := range batch {
		dir, _ := split(t.name)
		dirs[dir] = struct{}{}
	}
	for _, made := range w.made {
		dir, _ := split(made)
		dirs[dir] = struct{}{}
	}
	if name, err := d.syncDirs(top, w, dirs); err != nil {
		return &CommitError{Done: len(batch), Name: name, Err: cause(err)}
	}
	return nil
}

// syncDirs syncs directories and returns the name of the one that failed. A
// directory that was removed meanwhile needs no sync.
func (d *Dir) syncDirs(top *folder, w *walker, dirs map[string]struct{}) (string, error) {
	if len(dirs) > syncEach && d.syncAll(top) == nil {
		return "", nil
	}
	for dir := range dirs {
		in, err := w.folder(dir, false)
		var f *os.File
		if err == nil {
			f, err = in.handle()
		}
		if err == nil {
			err = syncDir(f)
		}
		if err == nil {
			d.trace.did(traceSyncDir, dir)
		}
		if err != nil && !absent(err) {
			return dir, err
		}
	}
	return "", nil
}
