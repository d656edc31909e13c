package blob

import (
	"context"
	"errors"
	"io/fs"
)

// Move implements [Mover]. It replaces nothing and follows no link.
func (d *Dir) Move(ctx context.Context, from, to string) error {
	err := ctx.Err()
	for _, name := range []string{from, to} {
		if err == nil {
			err = d.opts.check(name)
		}
	}
	if err == nil {
		err = d.move(from, to)
	}
	if err != nil {
		return nameError("move", from, err)
	}
	return nil
}

func (d *Dir) move(from, to string) error {
	top, err := d.root(false)
	if err != nil {
		return err
	}
	source, target := d.walker(top), d.walker(top)
	defer source.forget()
	defer target.forget()
	fromDir, fromBase := split(from)
	toDir, toBase := split(to)
	out, err := source.folder(fromDir, false)
	if err != nil {
		return err
	}
	if _, err := out.lstat(fromBase); err != nil {
		return err
	}
	in, err := target.folder(toDir, true)
	if err != nil {
		return err
	}
	switch _, err := in.root.Lstat(toBase); {
	case err == nil:
		err = fs.ErrExist
		unmake(target)
		return err
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := rename(out, fromBase, in, toBase); err != nil {
		unmake(target)
		return err
	}
	d.trace.did(traceRename, from, to)
	changed := map[string]struct{}{toDir: {}}
	for _, made := range target.made {
		dir, _ := split(made)
		changed[dir] = struct{}{}
	}
	// The new name is synced before the old directory: a power cut in between must
	// not lose both.
	if _, err := d.sync.dirs(top, target, changed); err != nil {
		return err
	}
	left := map[string]struct{}{fromDir: {}}
	if !d.opts.KeepEmpty {
		prune(source, d.opts.Tmp, left)
	}
	_, err = d.sync.dirs(top, source, left)
	return err
}
