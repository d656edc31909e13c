package blob

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"lockstep/internal/private"
)

// DirOptions configures a [Dir]. The zero value is ready to use.
type DirOptions struct {
	// Tmp is the directory for unfinished blobs, a slash-separated path below the
	// root, on the same file system; default ".lockstep/tmp". No blob can have the
	// name Tmp or one below it.
	Tmp string

	// Private is for state: directories are made with mode 0700 and files with
	// 0600, whatever the umask, and the root is restricted likewise. Otherwise the
	// umask determines the modes, except for blobs beside Tmp, below its first
	// directory.
	Private bool

	// KeepEmpty keeps directories that Remove leaves empty.
	KeepEmpty bool
}

// check refuses invalid and reserved names.
func (o DirOptions) check(name string) error {
	if !ValidName(name) {
		return ErrName
	}
	if name == o.Tmp || strings.HasPrefix(name, o.Tmp+"/") {
		return fmt.Errorf("%w: reserved for unfinished blobs", ErrName)
	}
	return nil
}

const (
	defaultTmp = ".lockstep/tmp"

	// The process's umask applies to both, so that a mirror has the same
	// permissions as other files of its owner. Unfinished blobs are private.
	dirMode  = 0o777
	fileMode = 0o666
)

// Dir is a [Store] of plain files below one directory: the blob "a/b" is the
// file root/a/b. It never follows a symbolic link below the root, never writes
// through a hard link, and changes no file except those it commits or removes.
// Other programs may read and remove files at any time; two processes that
// write should not share a directory, but do no harm if they do, as long as
// neither calls Resume or Sweep.
//
// It is also a [Resumer] and a [Sweeper], and its Writers are Keepers.
type Dir struct {
	path string
	opts DirOptions

	mu     sync.Mutex // guards what follows
	top    *folder    // nil until the root exists
	tmp    *folder    // nil until first needed
	closed bool

	names  reservedNames // of temporary files in use
	public publicMode    // of committed blobs
	sync   syncer

	trace tracer // in tests
}

// NewDir returns a store in the directory root. If root does not exist, the
// first Create creates it; until then the store is empty.
func NewDir(root string, o DirOptions) (*Dir, error) {
	if o.Tmp == "" {
		o.Tmp = defaultTmp
	}
	if !ValidName(o.Tmp) {
		return nil, fmt.Errorf("directory %s: temporary directory %q: %w", root, o.Tmp, ErrName)
	}
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("directory %s: %w", root, err)
	}
	d := &Dir{path: abs, opts: o}
	if _, err := d.root(false); err != nil && !errors.Is(err, ErrNotExist) {
		return nil, fmt.Errorf("directory %s: %w", root, cause(err))
	}
	return d, nil
}

// Close releases the directory. Unfinished blobs remain; open Writers and
// Readers can still be closed.
func (d *Dir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, f := range []*folder{d.tmp, d.top} {
		if f != nil {
			f.close()
		}
	}
	d.top, d.tmp = nil, nil
	return nil
}

// root returns the folder of the root, and creates it if create is set.
func (d *Dir) root(create bool) (*folder, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rootLocked(create)
}

func (d *Dir) rootLocked(create bool) (*folder, error) {
	if d.closed {
		return nil, fs.ErrClosed
	}
	if d.top != nil {
		return d.top, nil
	}
	if create {
		make := MakeDir
		if d.opts.Private {
			make = MakePrivateDir
		}
		if err := make(d.path); err != nil {
			return nil, err
		}
	} else if d.opts.Private {
		if err := private.Narrow(d.path); err != nil {
			return nil, err
		}
	}
	r, err := os.OpenRoot(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	d.top = &folder{root: r, top: r}
	return d.top, nil
}

// MakeDir creates a directory and its parents, like os.MkdirAll, and syncs
// their parent directories: a file is durable only if the directories above it
// are.
func MakeDir(path string) error { return makeDir(path, dirMode, dirMode) }

// MakePrivateDir is [MakeDir] for a directory of state that only its owner can
// read. It restricts the mode of an existing directory.
func MakePrivateDir(path string) error {
	if err := makeDir(path, private.DirMode, dirMode); err != nil {
		return err
	}
	return private.Narrow(path)
}

func makeDir(path string, mode, parents fs.FileMode) error {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		return nameError("mkdir", path, ErrNotDirectory)
	}
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := makeDir(parent, parents, parents); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := os.Open(parent)
	if err != nil {
		return err
	}
	err = syncDir(f)
	_ = f.Close() // opened for reading only
	return err
}

// find calls short with the root and, if that fails for another reason than a
// missing blob, long with the folder that contains the blob and the last
// segment of its name.
func (d *Dir) find(ctx context.Context, op, name string, short func(top *folder) error, long func(in *folder, base string) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := d.opts.check(name)
	if err == nil {
		err = d.walkTo(name, short, long)
	}
	switch {
	case err == nil:
		return nil
	case absent(err):
		err = ErrNotExist
	}
	return nameError(op, name, err)
}

func (d *Dir) walkTo(name string, short func(top *folder) error, long func(in *folder, base string) error) error {
	top, err := d.root(false)
	if err != nil {
		return err
	}
	if err := short(top); err == nil || errors.Is(err, ErrNotExist) {
		return err
	}
	w := d.walker(top)
	defer w.forget()
	dir, base := split(name)
	in, err := w.folder(dir, false)
	if err != nil {
		return err
	}
	return long(in, base)
}

// absent reports whether err means that nothing has the name. That includes
// names below a file, and names with a segment longer than the file system
// allows.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNotExist) ||
		errors.Is(err, ErrNotDirectory) || errors.Is(err, syscall.ENAMETOOLONG)
}

// Open opens a committed blob.
func (d *Dir) Open(ctx context.Context, name string) (Reader, error) {
	var file *os.File
	var info fs.FileInfo
	err := d.find(ctx, "open", name, func(top *folder) (err error) {
		file, info, err = lookInto(top, name)
		return err
	}, func(in *folder, base string) (err error) {
		for range maxTries {
			if file, info, err = in.open(base, os.O_RDONLY); !errors.Is(err, errMoved) {
				break
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &dirReader{file, Info{Name: name, Size: info.Size(), ModTime: info.ModTime()}}, nil
}

// maxTries bounds how often a step is repeated after a conflict with another: a
// blob replaced while it is opened, a directory removed as empty while a blob
// is moved there.
const maxTries = 100

// Stat describes a committed blob.
func (d *Dir) Stat(ctx context.Context, name string) (Info, error) {
	var info Info
	err := d.find(ctx, "stat", name, func(top *folder) (err error) {
		info, err = look(top, name)
		return err
	}, func(in *folder, base string) error {
		fi, err := in.lstat(base)
		if err == nil {
			info = Info{Name: name, Size: fi.Size(), ModTime: fi.ModTime()}
		}
		return err
	})
	if err != nil {
		return Info{}, err
	}
	return info, nil
}

type dirReader struct {
	*os.File
	info Info
}

func (r *dirReader) Info() Info { return r.info }
