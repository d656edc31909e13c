package blob

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"
)

// An item is one name in a directory. The name of a directory ends in a slash:
// in the byte order of whole names "a-b" precedes the content of "a", and "a0"
// follows it.
type item struct {
	name string
	kind fs.FileMode
}

// list returns the names in a folder, in the byte order of whole names.
func (f *folder) list() ([]item, error) {
	// Not handle: reading moves a position, and two callers may read at once.
	self, err := f.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer self.Close() // opened for reading only
	var items []item
	for {
		entries, err := self.ReadDir(listChunk)
		for _, e := range entries {
			it := item{name: e.Name(), kind: e.Type()}
			if e.IsDir() {
				it.name += "/"
			}
			items = append(items, it)
		}
		if len(entries) == 0 {
			if err == io.EOF {
				err = nil
			}
			slices.SortFunc(items, func(a, b item) int { return strings.Compare(a.name, b.name) })
			return items, err
		}
	}
}

// listChunk is how many entries of a directory are described at a time.
const listChunk = 1024

// List yields the blobs whose names begin with prefix. It holds the names of
// one directory per level in memory. Blobs committed or removed meanwhile may
// or may not be included; links, devices and files behind them are not.
func (d *Dir) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		top, err := d.root(false)
		if errors.Is(err, ErrNotExist) {
			return
		}
		if err != nil {
			yield(Info{}, nameError("list", prefix, err))
			return
		}
		l := lister{tmp: d.opts.Tmp, prefix: prefix, yield: yield}
		l.folder(ctx, top, "")
	}
}

// A lister walks the directories for one call of List.
type lister struct {
	tmp    string
	prefix string
	yield  func(Info, error) bool
}

// folder yields the content of f, the directory called dir (empty or ending in
// a slash), and reports whether to continue.
func (l *lister) folder(ctx context.Context, f *folder, dir string) bool {
	items, err := f.list()
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if err != nil {
		return l.fail(dir, err)
	}
	for _, it := range items {
		if err := ctx.Err(); err != nil {
			l.yield(Info{}, err)
			return false
		}
		name := dir + it.name
		sub, isDir := strings.CutSuffix(it.name, "/")
		switch {
		case isDir && dir+sub == l.tmp:
		case isDir && (strings.HasPrefix(name, l.prefix) || strings.HasPrefix(l.prefix, name)):
			if !l.below(ctx, f, sub, name) {
				return false
			}
		case it.kind.IsRegular() && strings.HasPrefix(name, l.prefix):
			if !l.file(f, it.name, name) {
				return false
			}
		}
	}
	return true
}

func (l *lister) below(ctx context.Context, f *folder, sub, name string) bool {
	next, err := f.sub(sub)
	if err != nil {
		return passing(err) || l.fail(name, err)
	}
	defer next.close()
	return l.folder(ctx, next, name)
}

func (l *lister) file(f *folder, base, name string) bool {
	info, err := f.lstat(base)
	if err != nil {
		return passing(err) || l.fail(name, err)
	}
	return l.yield(Info{Name: name, Size: info.Size(), ModTime: info.ModTime()}, nil)
}

// passing reports whether err only means that the name was removed or replaced
// since the directory was read.
func passing(err error) bool {
	return absent(err) || errors.Is(err, ErrForeign) || errors.Is(err, ErrDirectory)
}

func (l *lister) fail(name string, err error) bool {
	l.yield(Info{}, nameError("list", strings.TrimSuffix(name, "/"), err))
	return false
}

// remove removes the file of that name; a missing file is no error.
func (f *folder) remove(name string) error {
	if _, err := f.lstat(name); err != nil {
		return err
	}
	return f.root.Remove(name)
}
