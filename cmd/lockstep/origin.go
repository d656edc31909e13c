package main

import (
	"context"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/resourcesync"
)

// An origin is where the resources of a set come from. It keeps its set of the
// catalog in step with that place; the package intake says what each promises.
type origin interface {
	// Scan brings the catalog in step with the place once.
	Scan(ctx context.Context) (intake.Report, error)

	// Watch does so until ctx ends, and tells of each scan that changed
	// something.
	Watch(ctx context.Context, onChange func(intake.Report)) error
}

// An opener is an origin whose resources are files on this machine, so that we
// can serve them.
type opener interface {
	// Open opens the resource at the path rel below the set's URI; it fails with
	// fs.ErrNotExist if that is none.
	Open(rel string) (*os.File, fs.FileInfo, error)
}

// bitstreams is an origin that can open what it lists.
type bitstreams interface {
	Bitstream(ctx context.Context, r *catalog.Record) (io.ReadCloser, error)
}

// An originKind is a way in.
type originKind struct {
	scheme string // of its addresses
	after  string // what follows scheme and colon in each
	wants  string // what stands behind that, for people; "" nothing
	keys   []string
	path   func(place string) bool // whether a place is a path of this machine; nil never
	open   func(w *wayIn) (origin, error)
}

// form shows what an address of this kind looks like.
func (k *originKind) form() string { return k.scheme + ":" + k.after + k.wants }

// A wayIn is all a constructor needs to know.
type wayIn struct {
	address
	site       *site
	config     *setConfig
	uri        string // what the URIs of the set begin with
	set        string // its name in the catalog
	catalog    catalog.Catalog
	hashes     []resourcesync.Algorithm
	interval   time.Duration // between scans; negative never
	allowEmpty bool
	onEvent    func(intake.Event)
}

// originKinds lists the ways in. This is the only place that knows them all.
func originKinds() []originKind {
	anyPath := func(string) bool { return true }
	return []originKind{
		{scheme: "dir", wants: "PATH", keys: []string{"hash", "include", "exclude", "scan_interval"}, path: anyPath, open: openDir},
	}
}

// openDir makes a set from a directory.
func openDir(w *wayIn) (origin, error) {
	return intake.NewDir(w.place, w.catalog, w.set, intake.DirOptions{
		BaseURI: w.uri, Algorithms: w.hashes, Include: w.config.Include, Exclude: w.config.Exclude,
		AllowEmpty: w.allowEmpty, TempDir: w.site.opts.state, ScanInterval: w.interval, OnEvent: w.onEvent,
	})
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
