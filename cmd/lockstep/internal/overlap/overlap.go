// Package overlap finds resources of several sets of a Source that have the same address.
package overlap

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"lockstep/catalog"
	"lockstep/cmd/lockstep/internal/term"
)

// A Set is a set. Its resources are the files of a directory; others are not compared.
type Set struct {
	Name string
	List string // its name in the catalog
	URI  string // that the URIs of its resources begin with
	Dir  string // "": it has none
}

// file returns the name of the file that a resource of the set is.
func (s *Set) file(uri string) string {
	rest := strings.TrimPrefix(uri, s.URI)
	if path, err := url.PathUnescape(rest); err == nil {
		rest = path
	}
	return filepath.Join(s.Dir, filepath.FromSlash(rest))
}

// First returns the URI of the first resource in a set whose URI begins with prefix; "" if
// there is none.
func First(ctx context.Context, cat catalog.Catalog, list, prefix string) (string, error) {
	for r, err := range cat.Resources(ctx, list, catalog.Range{From: prefix}) {
		if err != nil {
			return "", err
		}
		if strings.HasPrefix(r.URI, prefix) {
			return r.URI, nil
		}
		break
	}
	return "", nil
}

// Report passes to warn, for each two sets that publish different files at one address, an
// error that names the first of them. It reads the catalog only as far as the addresses of two
// sets lie within each other.
func Report(ctx context.Context, cat catalog.Catalog, sets []Set, warn func(error)) {
	for i := range sets {
		for j := range sets[:i] {
			a, b := &sets[j], &sets[i]
			uri, err := shared(ctx, cat, a, b)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				warn(fmt.Errorf("compare the sets %s and %s: %w", a.Name, b.Name, err))
			case uri != "":
				warn(term.WithHint(fmt.Errorf("the sets %s and %s publish different files at %s: %s and %s; only one of them is there, and there may be more such files",
					a.Name, b.Name, uri, a.file(uri), b.file(uri)), "give one of the sets another uri, or leave out the files of one, as with exclude"))
			}
		}
	}
}

// shared returns the first URI at which two sets have different files; "" if there is none.
func shared(ctx context.Context, cat catalog.Catalog, a, b *Set) (string, error) {
	prefix := a.URI
	if strings.HasPrefix(b.URI, prefix) {
		prefix = b.URI
	}
	if a.Dir == "" || b.Dir == "" || !strings.HasPrefix(prefix, a.URI) || !strings.HasPrefix(prefix, b.URI) || realDir(a.file(prefix)) == realDir(b.file(prefix)) {
		return "", nil
	}
	x, y := cursor{cat: cat, list: a.List}, cursor{cat: cat, list: b.List}
	for to := prefix; ; {
		if err := x.seek(ctx, to); err != nil || !strings.HasPrefix(x.uri, prefix) {
			return "", err
		}
		if err := y.seek(ctx, x.uri); err != nil || !strings.HasPrefix(y.uri, prefix) {
			return "", err
		}
		if x.uri == y.uri {
			return x.uri, nil
		}
		to = y.uri
	}
}

// ahead is how many URIs a cursor reads at a time.
const ahead = 500

// A cursor moves through the resources of a set, in the order of their URIs.
type cursor struct {
	cat   catalog.Catalog
	list  string
	uri   string   // where it is; "" at the end
	after []string // URIs from there on, as far as they were read
}

// seek moves to the first URI from to on.
func (c *cursor) seek(ctx context.Context, to string) error {
	i, _ := slices.BinarySearch(c.after, to)
	if c.after = c.after[i:]; len(c.after) == 0 {
		for r, err := range c.cat.Resources(ctx, c.list, catalog.Range{From: to}) {
			if err != nil {
				return err
			}
			if c.after = append(c.after, r.URI); len(c.after) == ahead {
				break
			}
		}
	}
	if c.uri = ""; len(c.after) > 0 {
		c.uri = c.after[0]
	}
	return nil
}

// realDir returns the name of a directory without symbolic links, if it can be found out.
func realDir(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	if plain, err := filepath.EvalSymlinks(dir); err == nil {
		return plain
	}
	return dir
}
