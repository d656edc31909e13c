package blob

import (
	"context"
	"io/fs"
)

// StatAll implements [BatchStater]. It opens a directory once if several
// adjacent names are in it; a single name in a directory is looked up by its
// whole path.
func (d *Dir) StatAll(ctx context.Context, names []string, each func(i int, info Info, err error)) error {
	top, err := d.root(false)
	if err != nil {
		return statEach(ctx, d, names, each) // its errors are specific
	}
	w := d.walker(top)
	defer w.forget()
	for first := 0; first < len(names); {
		dir, _ := split(names[first])
		last := first + 1
		for last < len(names) && sameDir(names[last], dir) {
			last++
		}
		if last-first < statTogether && dir != "" {
			if err := statEach(ctx, d, names[first:last], func(i int, info Info, err error) { each(first+i, info, err) }); err != nil {
				return err
			}
			first = last
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		in, ferr := w.folder(dir, false)
		for i := first; i < last; i++ {
			info, err := Info{}, ferr
			if err == nil {
				info, err = statIn(in, names[i])
			}
			if err != nil { // rare: Stat returns the error that callers know
				info, err = d.Stat(ctx, names[i])
			}
			each(i, info, err)
		}
		first = last
	}
	return ctx.Err()
}

// statTogether is the number of names from which opening their directory is
// cheaper than looking each of them up by its path.
const statTogether = 3

// statEach calls Stat for each name.
func statEach(ctx context.Context, d *Dir, names []string, each func(i int, info Info, err error)) error {
	for i, name := range names {
		info, err := d.Stat(ctx, name)
		if cerr := ctx.Err(); cerr != nil {
			return cerr
		}
		each(i, info, err)
	}
	return nil
}

// sameDir reports whether name is directly in dir.
func sameDir(name, dir string) bool {
	other, _ := split(name)
	return other == dir
}

// statIn describes a file of an open directory by its whole name.
func statIn(in *folder, name string) (Info, error) {
	_, base := split(name)
	if !ValidName(base) {
		return Info{}, fs.ErrInvalid
	}
	info, err := in.lstat(base)
	if err != nil {
		return Info{}, err
	}
	return Info{Name: name, Size: info.Size(), ModTime: info.ModTime()}, nil
}
