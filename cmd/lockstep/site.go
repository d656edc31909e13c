package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lockstep/blob"
	"lockstep/intake"
	"lockstep/resourcesync"
	"lockstep/source"
	"lockstep/storage/sqlite"
)

// A site is a Source made of directories: each set a directory, one catalog,
// one store of documents.
type site struct {
	sets    []siteSet
	db      *sqlite.DB
	docs    *blob.Dir
	src     *source.Source
	log     *slog.Logger
	release func() // of the state's lock

	documents string // where docs is
}

// A siteSet is one set of a site.
type siteSet struct {
	name string
	path string // of its resources below the base URL: "" or "articles/"
	list string // URI of its Capability List
	dir  *intake.Dir
}

// siteOptions says what a site is made of.
type siteOptions struct {
	baseURL      string
	sets         []setConfig // each from a directory
	state        string      // directory for what is kept from run to run
	documents    string      // directory for the documents
	hashes       []resourcesync.Algorithm
	include      []string
	exclude      []string
	allowEmpty   bool
	scanInterval time.Duration // negative: never
	content      bool          // serve the files too
	command      string        // what the lock says
	log          *slog.Logger
	onEvent      func(set string, e intake.Event)
}

// openSite opens the state of a site and locks it. Nothing is scanned yet.
func openSite(ctx context.Context, o siteOptions) (_ *site, err error) {
	if err := checkPlaces(o); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.state, 0o700); err != nil {
		return nil, withHint(fmt.Errorf("make the state directory: %w", err), "choose another one with --state")
	}
	s := &site{log: o.log, documents: o.documents}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if s.release, err = lockState(o.state, o.command); err != nil {
		return nil, err
	}
	if s.db, err = sqlite.Open(filepath.Join(o.state, "catalog.db")); err != nil {
		return nil, err
	}
	if s.docs, err = openDocuments(ctx, o); err != nil {
		return nil, err
	}
	so := source.Options{BaseURL: o.baseURL, Logger: o.log}
	if o.content {
		so.Content = s.open
	}
	for _, c := range o.sets {
		set, keep, err := s.newSet(c, o)
		if err != nil {
			return nil, err
		}
		s.sets = append(s.sets, set)
		so.Sets = append(so.Sets, source.Set{Name: set.name, Path: set.path, Description: c.Description})
		so.Keep = max(so.Keep, keep)
	}
	if s.src, err = source.New(s.db.Catalog(), s.docs, so); err != nil {
		return nil, usageError{err: err}
	}
	return s, nil
}

// newSet makes the set a configuration describes.
func (s *site) newSet(c setConfig, o siteOptions) (set siteSet, keep time.Duration, err error) {
	set.name = c.Name
	if set.name == "" {
		set.name = source.DefaultSet
	}
	base := strings.TrimSuffix(o.baseURL, "/") + "/"
	uri := base
	if c.URI != "" {
		uri = strings.TrimSuffix(c.URI, "/") + "/"
		rest, ok := strings.CutPrefix(uri, base)
		if !ok {
			return set, 0, usagef("set %s: uri %s is not below the base URL %s", set.name, c.URI, o.baseURL)
		}
		if set.path, err = url.PathUnescape(rest); err != nil {
			return set, 0, usagef("set %s: uri %s: %w", set.name, c.URI, err)
		}
	}
	if set.list, err = source.CapabilityListURI(o.baseURL, set.name); err != nil {
		return set, 0, usageError{err: err}
	}
	do := intake.DirOptions{
		BaseURI: uri, Algorithms: o.hashes, Include: o.include, Exclude: o.exclude,
		AllowEmpty: o.allowEmpty, TempDir: o.state, ScanInterval: o.scanInterval,
	}
	if o.onEvent != nil {
		name := set.name
		do.OnEvent = func(e intake.Event) { o.onEvent(name, e) }
	}
	if set.dir, err = intake.NewDir(dirOf(c), s.db.Catalog(), set.list, do); err != nil {
		return set, 0, usageError{err: err}
	}
	return set, time.Duration(c.ChangeList.Keep), nil
}

// Close gives everything back. It may be called on a site half opened.
func (s *site) Close() {
	if s.docs != nil {
		_ = s.docs.Close() // all it wrote was committed before
	}
	if s.db != nil {
		if err := s.db.Close(); err != nil {
			s.log.Warn("close catalog", slog.Any("err", err))
		}
	}
	if s.release != nil {
		s.release()
	}
}

// open opens the file behind the path rel below the base URL, if it is a
// resource.
func (s *site) open(rel string) (*os.File, fs.FileInfo, error) {
	for _, set := range s.sets {
		if inner, ok := strings.CutPrefix(rel, set.path); ok {
			f, info, err := set.dir.Open(inner)
			if !errors.Is(err, fs.ErrNotExist) {
				return f, info, err
			}
		}
	}
	return nil, nil, fs.ErrNotExist
}

// scan brings the catalog in step with the directories, one after the other.
func (s *site) scan(ctx context.Context) ([]intake.Report, error) {
	var reports []intake.Report
	for _, set := range s.sets {
		r, err := set.dir.Scan(ctx)
		reports = append(reports, r)
		if err != nil {
			return reports, err
		}
	}
	return reports, nil
}

// publish brings the documents in step with the catalog.
func (s *site) publish(ctx context.Context) (source.Report, error) {
	r, err := s.src.Publish(ctx)
	if err != nil {
		err = fmt.Errorf("write documents to %s: %w", s.documents, err)
	}
	return r, err
}

// dirOf returns the directory a set is made from.
func dirOf(c setConfig) string { return strings.TrimPrefix(c.From, "dir:") }

// checkPlaces refuses directories that would get into each other's way: what
// we write must not come out as a resource.
func checkPlaces(o siteOptions) error {
	for _, c := range o.sets {
		dir := dirOf(c)
		switch info, err := os.Stat(dir); {
		case errors.Is(err, fs.ErrNotExist):
			return usagef("%s does not exist", dir)
		case err != nil:
			return usageError{err: err}
		case !info.IsDir():
			return usagef("%s is not a directory", dir)
		}
		if rel, ok := inside(dir, o.state); ok && !strings.HasPrefix(rel+"/", ".lockstep/") {
			return usageError{fmt.Errorf("the state directory %s lies inside %s and would be published", o.state, dir),
				"give a --state elsewhere, or below " + filepath.Join(dir, ".lockstep")}
		}
		if rel, ok := inside(dir, o.documents); ok && rel != "." && !strings.HasPrefix(rel+"/", ".lockstep/") {
			return usageError{fmt.Errorf("the documents in %s would lie inside %s and be published as resources", o.documents, dir),
				"write them to a directory elsewhere, or to " + dir + " itself"}
		}
	}
	return nil
}

// inside reports whether path is dir or below it, and where.
func inside(dir, path string) (rel string, ok bool) {
	d, err1 := realPath(dir)
	p, err2 := realPath(path)
	if err1 != nil || err2 != nil {
		return "", false
	}
	rel, err := filepath.Rel(d, p)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return "", false
	}
	return filepath.ToSlash(rel), true
}

// realPath resolves symbolic links in as much of path as exists.
func realPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	rest := ""
	for p := abs; ; p = filepath.Dir(p) {
		if real, err := filepath.EvalSymlinks(p); err == nil {
			return filepath.Join(real, rest), nil
		}
		if p == filepath.Dir(p) {
			return abs, nil
		}
		rest = filepath.Join(filepath.Base(p), rest)
	}
}

// defaultState returns the directory in which the state of a Source made from
// dir is kept unless told otherwise: one per directory, below the user's own.
func defaultState(dir string, lookup func(string) (string, bool)) (string, error) {
	abs, err := realPath(dir)
	if err != nil {
		return "", err
	}
	root, ok := lookup("XDG_STATE_HOME")
	if !ok || !filepath.IsAbs(root) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", usageError{fmt.Errorf("find a place for the state: %w", err), "give one with --state"}
		}
		root = filepath.Join(home, ".local", "state")
	}
	sum := sha256.Sum256([]byte(abs))
	return filepath.Join(root, "lockstep", fmt.Sprintf("%s-%x", filepath.Base(abs), sum[:4])), nil
}

// algorithms reads --hash.
func algorithms(names []string) ([]resourcesync.Algorithm, error) {
	known := map[string]resourcesync.Algorithm{
		"md5": resourcesync.MD5, "sha-1": resourcesync.SHA1, "sha-256": resourcesync.SHA256,
		"sha-384": resourcesync.SHA384, "sha-512": resourcesync.SHA512,
	}
	var as []resourcesync.Algorithm
	for _, n := range names {
		a, ok := known[strings.ToLower(strings.TrimSpace(n))]
		if !ok {
			return nil, usagef("--hash %q: want some of md5, sha-1, sha-256, sha-384, sha-512", n)
		}
		if !slices.Contains(as, a) {
			as = append(as, a)
		}
	}
	if len(as) == 0 {
		return nil, usagef("--hash: give at least one; the default is sha-256,md5")
	}
	slices.Sort(as)
	return as, nil
}
