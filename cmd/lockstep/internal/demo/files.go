package demo

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"lockstep/cmd/lockstep/internal/term"
)

// samples are the files of the demo: text, data, pictures, an empty file, a
// name that is not ASCII.
//
//go:embed samples
var samples embed.FS

// fill makes the directory the demo's Source publishes and returns how many
// files it has: the samples, or a copy of the user's files.
func (d *demo) fill(ctx context.Context) (int, error) {
	from, err := fs.Sub(samples, "samples")
	if err != nil {
		return 0, err
	}
	if d.o.Dir != "" {
		if info, err := os.Stat(d.o.Dir); err != nil || !info.IsDir() {
			return 0, term.Usagef("%s is not a directory", d.o.Dir)
		}
		from = os.DirFS(d.o.Dir)
	}
	n, err := copyTree(ctx, from, d.files)
	if err != nil {
		return 0, fmt.Errorf("copy the files: %w", err)
	}
	if n == 0 {
		return 0, term.Usage(fmt.Errorf("%s holds no files", d.o.Dir), "without DIR the demo uses samples of its own")
	}
	return n, nil
}

// copyTree copies the regular files of from to the directory to.
func copyTree(ctx context.Context, from fs.FS, to string) (n int, err error) {
	err = fs.WalkDir(from, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		target := filepath.Join(to, filepath.FromSlash(path))
		if e.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		if !e.Type().IsRegular() {
			return nil
		}
		n++
		return copyFile(from, path, target)
	})
	return n, err
}

func copyFile(from fs.FS, path, target string) error {
	in, err := from.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // read only
	out, err := os.Create(target)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// changes returns what happens in the demo: an edit, a new file, a deletion.
// Files appear by rename, whole, as careful programs write them.
func (d *demo) changes() []demoChange {
	edited, deleted := "articles/clocks.md", "data/stations.csv"
	if d.o.Dir != "" {
		edited, deleted = d.pick()
	}
	steps := []demoChange{
		{step: "update", what: edited + " edited", updated: 1, do: func() error {
			text, err := os.ReadFile(filepath.Join(d.files, edited))
			if err != nil {
				return err
			}
			return d.put(edited, append(text, "\nOne line more.\n"...))
		}},
		{step: "creation", what: "new/Hello, world.txt added", created: 1, do: func() error {
			return d.put("new/Hello, world.txt", []byte("Hello, world.\n"))
		}},
	}
	if deleted != "" {
		steps = append(steps, demoChange{step: "deletion", what: deleted + " deleted", deleted: 1, do: func() error {
			return os.Remove(filepath.Join(d.files, deleted))
		}})
	}
	return steps
}

// pick chooses a file to edit and another to delete, the smallest there are,
// from a user's files. The second is "new/Hello, world.txt" if there is one
// file only.
func (d *demo) pick() (edited, deleted string) {
	type candidate struct {
		rel  string
		size int64
	}
	var all []*candidate
	_ = fs.WalkDir(os.DirFS(d.files), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil //nolint:nilerr // our own copy, just made
		}
		if info, err := e.Info(); err == nil && path != "robots.txt" {
			all = append(all, &candidate{path, info.Size()})
		}
		return nil
	})
	slices.SortFunc(all, func(a, b *candidate) int { return cmp.Compare(a.size, b.size) })
	if len(all) == 1 {
		return all[0].rel, "new/Hello, world.txt"
	}
	return all[0].rel, all[1].rel
}

// put writes a file and moves it to its place.
func (d *demo) put(rel string, text []byte) error {
	target := filepath.Join(d.files, filepath.FromSlash(rel))
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	draft := filepath.Join(filepath.Dir(d.files), "draft")
	if err := os.WriteFile(draft, text, 0o644); err != nil {
		return err
	}
	return os.Rename(draft, target)
}

// compare compares two directories byte by byte, what Lockstep keeps for
// itself left out. It returns the number of files and the first difference.
func compare(a, b string) (n int, difference string, err error) {
	left, err := regularFiles(a)
	if err != nil {
		return 0, "", err
	}
	right, err := regularFiles(b)
	if err != nil {
		return 0, "", err
	}
	for _, rel := range right {
		if _, ok := slices.BinarySearch(left, rel); !ok {
			return 0, rel + " is only in the mirror", nil
		}
	}
	for _, rel := range left {
		if _, ok := slices.BinarySearch(right, rel); !ok {
			return 0, rel + " is not in the mirror", nil
		}
		same, err := sameBytes(filepath.Join(a, rel), filepath.Join(b, rel))
		if err != nil {
			return 0, "", err
		}
		if !same {
			return 0, rel + " is another", nil
		}
	}
	return len(left), "", nil
}

// regularFiles lists the files below dir, sorted.
func regularFiles(dir string) ([]string, error) {
	var files []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && path == ".lockstep":
			return fs.SkipDir
		case e.Type().IsRegular():
			files = append(files, path)
		}
		return nil
	})
	slices.Sort(files)
	return files, err
}

func sameBytes(a, b string) (bool, error) {
	f, err := os.Open(a)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // read only
	g, err := os.Open(b)
	if err != nil {
		return false, err
	}
	defer func() { _ = g.Close() }() // read only
	p, q := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err1 := io.ReadFull(f, p)
		m, err2 := io.ReadFull(g, q)
		if !bytes.Equal(p[:n], q[:m]) {
			return false, nil
		}
		ended := errors.Is(err1, io.EOF) || errors.Is(err1, io.ErrUnexpectedEOF)
		switch {
		case ended && (errors.Is(err2, io.EOF) || errors.Is(err2, io.ErrUnexpectedEOF)):
			return true, nil
		case err1 != nil && !ended:
			return false, err1
		case err2 != nil:
			return false, err2
		}
	}
}
