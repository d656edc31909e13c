package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"strings"
	"time"

	"lockstep/internal/private"
)

// The name of a temporary file is a hash of its blob's name, so that a later
// process finds it again. A second Writer of the same name appends a number.

// tmpBase returns the name of the temporary file for the blob name.
func tmpBase(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:16])
}

// dirWriter writes one temporary file.
type dirWriter struct {
	store *Dir
	name  string
	tmp   *folder // contains file
	base  string  // name of file in tmp; reserved in store.names
	file  tmpFile // nil when sealed
	mod   time.Time
	state writerState
	shown bool // file has the mode of its blob, which is not private
	alone bool // there must be no blob of that name
}

// A tmpFile is an open temporary file.
type tmpFile interface {
	io.WriteCloser
	Sync() error
	Chmod(mode fs.FileMode) error
}

type writerState int

const (
	writerOpen   writerState = iota
	writerSealed             // likewise, but file is closed
	writerCommitted
	writerClosed
)

// Create begins a blob under name. It drops an unfinished one of an earlier
// process.
func (d *Dir) Create(ctx context.Context, name string) (Writer, error) {
	return d.create(ctx, name, private.FileMode)
}

// CreateWhole implements [WholeCreator].
func (d *Dir) CreateWhole(ctx context.Context, name string) (Writer, error) {
	if d.opts.private(name) {
		return d.Create(ctx, name)
	}
	return d.create(ctx, name, fileMode)
}

// create is Create with the mode of the temporary file, which the umask narrows.
func (d *Dir) create(ctx context.Context, name string, mode fs.FileMode) (Writer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := d.opts.check(name); err != nil {
		return nil, nameError("create", name, err)
	}
	w := &dirWriter{store: d, name: name, shown: mode != private.FileMode}
	var err error
	for range maxTries {
		if w.tmp, err = d.tmpFolder(true); err != nil {
			break
		}
		w.base = d.names.reserve(tmpBase(name))
		if w.file, err = createTmp(w.tmp, w.base, mode, createTmpFile); err == nil {
			w.did(traceCreate)
			return w, nil
		}
		d.names.release(w.base)
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
		d.forgetTmp(w.tmp) // another process has removed the directory
	}
	return nil, nameError("create", name, err)
}

// createTmp has create make a new file, in place of an unfinished one.
func createTmp[F any](tmp *folder, base string, mode fs.FileMode, create func(*folder, string, fs.FileMode) (F, error)) (F, error) {
	f, err := create(tmp, base, mode)
	if errors.Is(err, fs.ErrExist) {
		if err = tmp.root.Remove(base); err == nil || errors.Is(err, fs.ErrNotExist) {
			f, err = create(tmp, base, mode)
		}
	}
	return f, err
}

// tmpFolder returns the folder for temporary files.
func (d *Dir) tmpFolder(create bool) (*folder, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tmp != nil {
		return d.tmp, nil
	}
	top, err := d.rootLocked(create)
	if err != nil {
		return nil, err
	}
	w := d.walker(top)
	defer w.forget()
	f, err := w.folder(d.opts.Tmp, create)
	if err != nil {
		return nil, err
	}
	delete(w.open, d.opts.Tmp) // keep this one
	if err := narrowTmp(d.path, d.opts.Tmp); err != nil {
		f.close()
		return nil, err
	}
	d.tmp = f
	return f, nil
}

// forgetTmp makes the next tmpFolder open the directory again. The old one
// stays open for the Writers that use it; the garbage collector closes it.
func (d *Dir) forgetTmp(f *folder) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tmp == f {
		d.tmp = nil
	}
}

// Resume opens the unfinished blob of that name. It returns ErrNotExist while a
// Writer of this process writes it.
func (d *Dir) Resume(ctx context.Context, name string) (Writer, *io.SectionReader, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	err := d.opts.check(name)
	if err == nil {
		var w *dirWriter
		var part *io.SectionReader
		if w, part, err = d.resume(name); err == nil {
			return w, part, nil
		}
	}
	if absent(err) {
		err = ErrNotExist
	}
	return nil, nil, nameError("resume", name, err)
}

func (d *Dir) resume(name string) (*dirWriter, *io.SectionReader, error) {
	tmp, err := d.tmpFolder(false)
	if err != nil {
		return nil, nil, err
	}
	w := &dirWriter{store: d, name: name, tmp: tmp, base: tmpBase(name)}
	if !d.names.tryReserve(w.base) {
		return nil, nil, ErrNotExist
	}
	file, info, err := tmp.open(w.base, os.O_RDWR)
	if err == nil && linked(info) {
		// Appending would write through another program's hard link.
		_ = file.Close() // nothing was written
		err = ErrNotExist
	}
	if err != nil {
		d.names.release(w.base)
		return nil, nil, err
	}
	if _, err := file.Seek(info.Size(), io.SeekStart); err != nil {
		_ = file.Close() // nothing was written
		d.names.release(w.base)
		return nil, nil, err
	}
	w.file = file
	return w, io.NewSectionReader(file, 0, info.Size()), nil
}

// Sweep removes unfinished blobs.
func (d *Dir) Sweep(ctx context.Context, keep iter.Seq[string]) (int, error) {
	tmp, err := d.tmpFolder(false)
	if absent(err) {
		return 0, nil
	}
	if err != nil {
		return 0, nameError("sweep", d.opts.Tmp, err)
	}
	left, err := tmp.list()
	if err != nil {
		return 0, nameError("sweep", d.opts.Tmp, err)
	}
	drop := make(map[string]struct{}, len(left))
	for _, e := range left {
		if !e.kind.IsDir() {
			drop[e.name] = struct{}{}
		}
	}
	for name := range keep {
		if len(drop) == 0 {
			break
		}
		delete(drop, tmpBase(name))
	}
	return dropTmp(ctx, tmp, drop, &d.names, d.opts.Tmp)
}

// dropTmp removes those of the temporary files drop that no Writer uses, from
// the directory tmp, which is called dir.
func dropTmp(ctx context.Context, tmp *folder, drop map[string]struct{}, names *reservedNames, dir string) (int, error) {
	n := 0
	var errs []error
	for base := range drop {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		// While the name is reserved no Writer can take it.
		if !names.tryReserve(base) {
			continue
		}
		err := tmp.root.Remove(base)
		names.release(base)
		switch {
		case err == nil:
			n++
		case !errors.Is(err, fs.ErrNotExist):
			errs = append(errs, nameError("sweep", dir+"/"+base, err))
		}
	}
	return n, errors.Join(errs...)
}

// path returns the path of the temporary file below the root.
func (w *dirWriter) path() string { return w.store.opts.Tmp + "/" + w.base }

// did reports an operation on the temporary file to the tracer, if there is one.
func (w *dirWriter) did(op traceOp, names ...string) {
	if w.store.trace != nil {
		w.store.trace.did(op, append([]string{w.path()}, names...)...)
	}
}

func (w *dirWriter) Name() string           { return w.name }
func (w *dirWriter) SetModTime(t time.Time) { w.mod = t }

// ExpectNone implements [Exclusive].
func (w *dirWriter) ExpectNone() { w.alone = true }

// Rename implements [Renamer]. Resume finds a kept blob under its first name.
func (w *dirWriter) Rename(name string) error {
	if err := w.store.opts.check(name); err != nil {
		return nameError("rename", name, err)
	}
	w.name = name
	return nil
}

func (w *dirWriter) Write(p []byte) (int, error) {
	if w.state != writerOpen {
		return 0, nameError("write", w.name, fs.ErrClosed)
	}
	n, err := w.file.Write(p)
	w.did(traceWrite)
	if err != nil {
		return n, nameError("write", w.name, err)
	}
	return n, nil
}

// Seal implements [Sealer]. The file is closed if the file system can be synced
// as a whole: write-back errors, which an open handle would report, are then
// reported by syncfs.
func (w *dirWriter) Seal() (closed bool, err error) {
	if w.state != writerOpen {
		return false, nameError("seal", w.name, fs.ErrClosed)
	}
	if !w.store.sync.mayClose() {
		return false, nil
	}
	if !w.mod.IsZero() {
		err = setModTime(w.file, w.tmp.root, w.base, w.mod)
	}
	if err == nil {
		err = w.publish() // while it is open: that takes no lookup
	}
	if err1 := w.file.Close(); err == nil {
		err = err1
	}
	w.state, w.file = writerSealed, nil
	if err != nil {
		return true, nameError("write", w.name, err)
	}
	return true, nil
}

// Close drops the blob, unless it is committed or kept.
func (w *dirWriter) Close() error {
	if !w.isOpen() {
		return nil
	}
	w.state = writerClosed
	if w.file != nil {
		_ = w.file.Close() // the bytes are discarded
	}
	err := w.tmp.root.Remove(w.base)
	w.store.names.release(w.base)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nameError("drop", w.name, err)
	}
	return nil
}

func (w *dirWriter) isOpen() bool { return w.state == writerOpen || w.state == writerSealed }

// Keep closes the Writer and leaves its bytes for Resume.
func (w *dirWriter) Keep() error {
	if !w.isOpen() {
		return nameError("keep", w.name, fs.ErrClosed)
	}
	err := w.hide()
	if w.file != nil {
		if err1 := w.file.Sync(); err == nil {
			err = err1
		}
		if err1 := w.file.Close(); err == nil {
			err = err1
		}
	}
	w.state = writerClosed
	defer w.store.names.release(w.base)
	if first, _, second := strings.Cut(w.base, "-"); second && err == nil {
		// The first Writer of the name may still be open: then these bytes are dropped.
		if w.store.names.tryReserve(first) {
			err = w.tmp.root.Rename(w.base, first)
			w.store.names.release(first)
		} else {
			err = w.tmp.root.Remove(w.base)
		}
	}
	if err != nil {
		return nameError("keep", w.name, err)
	}
	return nil
}
