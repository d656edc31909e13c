package validation

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/validate"
	"lockstep/validate/finding"
	"lockstep/validate/opener"
)

// files are the files and directories that were checked.
type files struct {
	checked []os.FileInfo
	dirs    []directory
}

// A directory is one whose Source was checked.
type directory struct {
	path string
	base string // the URL of its files, without a slash at the end
	run  *validate.Run
}

// directoriesFirst returns the targets in the order in which they are checked: a file in
// a directory may be a document of the Source there.
func directoriesFirst(targets []string) []string {
	rank := func(target string) int {
		if info, err := os.Stat(target); err == nil && info.IsDir() {
			return 0
		}
		return 1
	}
	return slices.SortedStableFunc(slices.Values(targets), func(a, b string) int { return rank(a) - rank(b) })
}

// contain reports whether a file or directory was checked, by itself or as part of the
// Source in a directory.
func (c *files) contain(name string, info os.FileInfo) bool {
	if slices.ContainsFunc(c.checked, func(known os.FileInfo) bool { return os.SameFile(known, info) }) {
		return true
	}
	c.checked = append(c.checked, info)
	return slices.ContainsFunc(c.dirs, func(d directory) bool {
		rel, err := filepath.Rel(d.path, realPath(name))
		return err == nil && d.run.Checked(d.base+(&url.URL{Path: "/" + filepath.ToSlash(rel)}).EscapedPath())
	})
}

// realPath returns an absolute path without links, as far as it can be determined.
func realPath(name string) string {
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real
	}
	if abs, err := filepath.Abs(name); err == nil {
		name = abs
	}
	return name
}

// validate checks a file, or the Source in a directory.
func (c *files) validate(ctx context.Context, o *Options, vo validate.Options, target string, origins *origins) (*finding.Report, error) {
	if info, err := os.Stat(target); err == nil && info.IsDir() {
		return c.validateDir(ctx, o, vo, target, origins)
	}
	vo.OnResource = origins.comparer(nil)
	return validateFile(ctx, vo, target)
}

// validateDir checks a Source whose files are in a directory.
func (c *files) validateDir(ctx context.Context, o *Options, vo validate.Options, dir string, origins *origins) (*finding.Report, error) {
	base := o.BaseURL
	if base == "" {
		var err error
		if base, err = opener.DirBase(dir); err != nil {
			hint := "name the documents in it, or say by --base-url at which URL the directory is served"
			if mirror.IsMirror(dir) {
				hint = "to compare a mirror with its Source: lockstep audit SOURCE " + dir
			}
			if errors.Is(err, opener.ErrBase) {
				return nil, term.Usage(err, hint)
			}
			return nil, err
		}
	}
	if !term.IsURL(base) {
		return nil, term.Usage(fmt.Errorf("--base-url %q is no URL", fetch.WithoutUser(base)), "as --base-url https://data.example.org/")
	}
	base = strings.TrimSuffix(base, "/")
	vo.Settle = time.Nanosecond // files need no time to settle
	open := opener.Dir(base, dir)
	vo.OnResource = origins.comparer(open)
	run := validate.NewRun(vo)
	c.dirs = append(c.dirs, directory{realPath(dir), base, run})
	err := run.Source(ctx, open, base+discover.WellKnown)
	return run.Report(), err
}

// validateFile checks a document or a package in a file.
func validateFile(ctx context.Context, vo validate.Options, name string) (*finding.Report, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // opened for reading only
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("read %s: not a regular file", name)
	}
	if err != nil {
		return nil, err
	}
	r := bufio.NewReader(f)
	head, _ := r.Peek(4) // what is shorter is no package
	if bytes.HasPrefix(head, []byte("PK\x03\x04")) || bytes.HasPrefix(head, []byte("PK\x05\x06")) || strings.EqualFold(filepath.Ext(name), ".zip") {
		return validate.Package(ctx, f, info.Size(), filepath.ToSlash(name), vo)
	}
	return validate.Document(ctx, r, filepath.ToSlash(name), vo)
}
