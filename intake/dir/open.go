package dir

import (
	"context"
	"io"
	"io/fs"
	"os"

	"lockstep/catalog"
	"lockstep/intake/internal/filestat"
	"lockstep/intake/internal/pathname"
)

// Open opens the file at the slash-separated relative path rel if a scan would
// list it; otherwise the error matches [fs.ErrNotExist]. It never leaves the
// root and opens only regular files.
func (d *Dir) Open(rel string) (*os.File, fs.FileInfo, error) {
	if !pathname.ValidRel(rel) || !d.filter.Passes(rel) {
		return nil, nil, notListed(rel)
	}
	t, err := d.acquire()
	if err != nil {
		return nil, nil, err
	}
	defer t.release()
	f, fi, err := openListed(t, rel)
	if err != nil && (vanished(err) || escaped(err)) {
		err = notListed(rel)
	}
	return f, fi, err
}

// Mark returns a text that differs between any two states of the file that Open
// opens at rel; it fails where Open does.
func (d *Dir) Mark(rel string) (string, error) {
	if !pathname.ValidRel(rel) || !d.filter.Passes(rel) {
		return "", notListed(rel)
	}
	t, err := d.acquire()
	if err != nil {
		return "", err
	}
	defer t.release()
	st, err := t.lstat(rel)
	if err == nil && st.Kind == filestat.Link {
		if leadsToState(t, rel) {
			return "", notListed(rel)
		}
		st, err = t.stat(rel)
	}
	switch {
	case err != nil && !vanished(err) && !escaped(err):
		return "", err
	case err != nil, st.Kind != filestat.File:
		return "", notListed(rel)
	}
	return st.Mark(), nil
}

// Bitstream opens the present representation of r; if a scan would no longer list
// it, the error matches [fs.ErrNotExist]. The file may change while it is being
// read.
func (d *Dir) Bitstream(_ context.Context, r *catalog.Record) (io.ReadCloser, error) {
	rel, ok := d.RelPath(r.URI)
	if !ok {
		return nil, notListed(r.URI)
	}
	f, _, err := d.Open(rel)
	if err != nil {
		return nil, err // not f, which is nil
	}
	return f, nil
}

func notListed(rel string) error {
	return &fs.PathError{Op: "open", Path: rel, Err: fs.ErrNotExist}
}

func openListed(t tree, rel string) (*os.File, fs.FileInfo, error) {
	st, err := t.lstat(rel)
	if err != nil {
		return nil, nil, err
	}
	link := st.Kind == filestat.Link
	if link {
		if leadsToState(t, rel) {
			return nil, nil, notListed(rel)
		}
		if st, err = t.stat(rel); err != nil {
			return nil, nil, err
		}
	}
	if st.Kind != filestat.File {
		return nil, nil, notListed(rel)
	}
	f, err := t.openOS(rel, link)
	if err != nil {
		return nil, nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = notListed(rel)
	}
	if err != nil {
		_ = f.Close() // nothing was read
		return nil, nil, err
	}
	return f, fi, nil
}

// A sharedTree is a tree with several users; the last one closes it.
type sharedTree struct {
	tree
	rootInfo fs.FileInfo
	d        *Dir
	refs     int // guarded by d.mu
}

// acquire returns the root as last opened. The caller must release it.
func (d *Dir) acquire() (*sharedTree, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tree == nil {
		t, err := d.openRoot()
		if err != nil {
			return nil, err
		}
		d.tree = t
	}
	d.tree.refs++
	return d.tree, nil
}

// reopen returns the root as it is now, and reports whether it is the directory
// that was opened last. The caller must release it.
func (d *Dir) reopen() (t *sharedTree, same bool, err error) {
	now, err := d.openRoot()
	if err != nil {
		return nil, false, err
	}
	d.mu.Lock()
	old := d.tree
	if old != nil && os.SameFile(old.rootInfo, now.rootInfo) {
		old.refs++
		d.mu.Unlock()
		return old, true, now.close()
	}
	d.tree = now
	now.refs++
	d.mu.Unlock()
	if old != nil {
		old.release()
	}
	return now, false, nil
}

// openRoot opens the root; its one reference belongs to Dir.tree.
func (d *Dir) openRoot() (*sharedTree, error) {
	t, err := openTree(d.root)
	if err != nil {
		return nil, err
	}
	fi, err := t.info()
	if err != nil {
		_ = t.close() // nothing was read
		return nil, err
	}
	return &sharedTree{tree: t, rootInfo: fi, d: d, refs: 1}, nil
}

func (t *sharedTree) release() {
	t.d.mu.Lock()
	t.refs--
	last := t.refs == 0
	t.d.mu.Unlock()
	if last {
		_ = t.close() // only read from
	}
}

// Close closes the root directory. The Dir can be used again afterwards; closing is
// needed only so that the disk can be unmounted.
func (d *Dir) Close() error {
	d.mu.Lock()
	t := d.tree
	d.tree = nil
	d.mu.Unlock()
	if t != nil {
		t.release()
	}
	return nil
}
