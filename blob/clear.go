package blob

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// A Clearer is a Store whose names may be occupied by objects that no store
// creates.
type Clearer interface {
	// Clear makes room for a blob without destroying anything: an object that is
	// neither a regular file nor a directory, at name or in place of a directory on
	// the path to it, is moved to a location that Clear returns, relative to the
	// root; an empty directory at name is removed. Everything else remains. Links
	// are moved, not followed.
	Clear(ctx context.Context, name string) (moved string, err error)
}

// asideDir is the directory to which Clear moves objects, beside that of
// unfinished blobs.
const asideDir = "aside"

// maxAside bounds the search for a free name there.
const maxAside = 100_000

// Clear implements [Clearer].
func (d *Dir) Clear(ctx context.Context, name string) (moved string, err error) {
	err = ctx.Err()
	if err == nil {
		err = d.opts.check(name)
	}
	if err == nil {
		moved, err = d.clear(name)
	}
	if err == nil || absent(err) {
		return moved, nil
	}
	return moved, nameError("clear", name, err)
}

func (d *Dir) clear(name string) (moved string, err error) {
	top, err := d.root(false)
	if err != nil {
		return "", err
	}
	w := d.walker(top)
	defer w.forget()
	for end := 0; end < len(name); end++ {
		i := strings.IndexByte(name[end:], '/')
		last := i < 0
		if end += i; last {
			end = len(name)
		}
		dir, base := split(name[:end])
		in, err := w.folder(dir, false)
		if err != nil {
			return "", err
		}
		info, err := in.root.Lstat(base)
		switch {
		case err != nil || info.Mode().IsRegular():
			return "", err
		case !info.IsDir():
			other := d.walker(top) // the folders of w are valid only until its next call
			defer other.forget()
			aside := path.Join(path.Dir(d.opts.Tmp), asideDir)
			if moved, err = moveAside(in, base, other, aside); moved == "" {
				return "", err
			}
			_, err = d.sync.dirs(top, w, map[string]struct{}{dir: {}, aside: {}, path.Dir(aside): {}})
			return moved, err
		case last:
			if removeDir(in, base) != nil {
				return "", nil // it is not empty
			}
			_, err = d.sync.dirs(top, w, map[string]struct{}{dir: {}})
			return "", err
		}
	}
	return "", nil
}

// moveAside moves the object base of a directory to the directory aside, under
// a name that it returns.
func moveAside(in *folder, base string, w *walker, aside string) (string, error) {
	to, err := w.folder(aside, true)
	if err != nil {
		return "", err
	}
	for n := 1; n <= maxAside; n++ {
		name := fmt.Sprint(n)
		if _, err := to.root.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := rename(in, base, to, name); err != nil {
			return "", err
		}
		return aside + "/" + name, nil
	}
	return "", fs.ErrExist
}
