package site

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lockstep/catalog"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/intake"
	"lockstep/intake/api"
	"lockstep/intake/bucket"
	"lockstep/intake/dir"
	"lockstep/intake/jsonl"
	"lockstep/intake/sitemap"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
	"lockstep/source"
)

// An origin is where the resources of a set come from. It keeps its set of the
// catalog in step with that place; the package intake says what each promises.
type origin interface {
	// Scan brings the catalog in step with the place once.
	Scan(ctx context.Context) (intake.Report, error)

	// Watch does so until ctx ends, and calls onChange after each scan that
	// changed something.
	Watch(ctx context.Context, onChange func(intake.Report)) error
}

// A fileOpener is an origin whose resources are files on this machine, so that we
// can serve them.
type fileOpener interface {
	// Open opens the resource at the path rel below the set's URI; it fails with
	// fs.ErrNotExist if that is none.
	Open(rel string) (*os.File, fs.FileInfo, error)

	// Mark returns a string that identifies the current state of the file that
	// Open opens: it changes whenever the file does.
	Mark(rel string) (string, error)
}

// bitstreams is an origin that can open what it lists.
type bitstreams interface {
	Bitstream(ctx context.Context, r *catalog.Record) (io.ReadCloser, error)
}

// A wayIn is all a constructor needs to know.
type wayIn struct {
	config.Address
	site       *Site
	config     *config.Set
	uri        string // what the URIs of the set begin with
	name       string // of the set
	set        string // its name in the catalog
	catalog    catalog.Catalog
	hashes     []resourcesync.Algorithm
	interval   time.Duration // between scans; negative never
	allowEmpty bool
	onEvent    func(intake.Event)
}

// openOrigin makes the origin of a set.
func openOrigin(w *wayIn) (origin, error) {
	switch w.Kind.Scheme {
	case "dir":
		return openDir(w)
	case "s3":
		return openBucketOrigin(w)
	case "jsonl":
		return openJSONL(w)
	case "sitemap":
		return openSitemap(w)
	case "oai-pmh":
		return openRepository(w)
	case "atom-pmh":
		return openFeed(w)
	case "api":
		return openAPI(w)
	}
	return nil, fmt.Errorf("no origin of kind %s", w.Kind.Scheme) // unreachable: parseAddress knows them all
}

// openDir makes a set from a directory.
func openDir(w *wayIn) (origin, error) {
	return dir.New(w.Place, w.catalog, w.set, dir.Options{
		BaseURI: w.uri, Algorithms: w.hashes, Include: w.config.Include, Exclude: w.config.Exclude,
		Sidecar: w.config.Sidecar, AllowEmpty: w.allowEmpty, TempDir: w.site.opts.State, ScanInterval: w.interval, OnEvent: w.onEvent,
	})
}

// openBucketOrigin makes a set from the objects of a bucket.
func openBucketOrigin(w *wayIn) (origin, error) {
	objects, err := mirror.OpenBucket(w.Address.String(), w.site.opts.IO.LookupEnv)
	if err != nil {
		return nil, err
	}
	content := bucket.ReadNever
	if w.config.HashesGiven {
		content = bucket.ReadAlways
	}
	return bucket.New(objects, w.catalog, w.set, bucket.Options{
		BaseURI: w.uri, Content: content, Algorithms: w.hashes, Include: w.config.Include, Exclude: w.config.Exclude,
		AllowEmpty: w.allowEmpty, TempDir: w.site.opts.State, ScanInterval: w.interval, OnEvent: w.onEvent,
	})
}

// openJSONL makes a set from a file of JSON lines, or from standard input.
func openJSONL(w *wayIn) (origin, error) {
	client, err := w.bitstreamClient(w.uri)
	if err != nil {
		return nil, err
	}
	o := jsonl.Options{
		Complete: w.config.Complete, AllowEmpty: w.allowEmpty, TempDir: w.site.opts.State,
		State: w.stateFile("jsonl.json"), ScanInterval: w.interval, Client: client, OnEvent: w.onEvent,
	}
	if w.Place == config.Stdin {
		return jsonl.NewStream(w.site.opts.IO.In, "standard input", w.catalog, w.set, o), nil
	}
	return jsonl.New(w.Place, w.catalog, w.set, o)
}

// openSitemap makes a set from a sitemap at a URL or in a file.
func openSitemap(w *wayIn) (origin, error) {
	client, err := w.site.client(w.Place)
	if err != nil {
		return nil, err
	}
	return sitemap.New(w.WithoutUser(), client, w.catalog, w.set, sitemap.Options{
		Content: w.config.HashesGiven, Algorithms: w.hashes, AllowEmpty: w.allowEmpty, TempDir: w.site.opts.State,
		State: w.stateFile("sitemap.json"), ScanInterval: w.interval, OnEvent: w.onEvent,
	})
}

// openAPI makes a set that applications fill.
func openAPI(w *wayIn) (origin, error) {
	if w.site.api == nil {
		base, err := source.BaseURL(w.site.opts.BaseURL)
		if err != nil {
			return nil, err
		}
		_, host, _ := strings.Cut(base, "://")
		_, path, _ := strings.Cut(host, "/")
		w.site.apiPath = "/" + path + apiDir
		w.site.api, err = api.New(w.catalog, api.Options{
			State: filepath.Join(w.site.opts.State, "api"), TokenFile: w.site.opts.APITokenFile, Admin: w.site.admin.Trusts(), Path: w.site.apiPath, Logger: w.site.log,
		})
		if err != nil {
			return nil, err
		}
	}
	return w.site.api.Add(w.name, w.catalog, w.set)
}

// apiDir is where the API is, below the base URL.
const apiDir = "-/api/"

// bitstreamClient returns a client for the resources of a set, which are on
// other servers, or nil if nothing is going to open them.
func (w *wayIn) bitstreamClient(home string) (*fetch.Client, error) {
	if !w.config.OpensBytes() {
		return nil, nil
	}
	return w.site.client(home)
}

// stateFile returns the path of a file in which an origin keeps what it
// remembers of its set.
func (w *wayIn) stateFile(name string) string {
	return filepath.Join(w.site.opts.State, "origin-"+w.name+"-"+name)
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
			return nil, term.Usagef("--hash %q: want some of md5, sha-1, sha-256, sha-384, sha-512", n)
		}
		if !slices.Contains(as, a) {
			as = append(as, a)
		}
	}
	if len(as) == 0 {
		return nil, term.Usagef("--hash: give at least one; the default is sha-256,md5")
	}
	slices.Sort(as)
	return as, nil
}
