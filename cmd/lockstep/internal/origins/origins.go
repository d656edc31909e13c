// Package origins opens the places that the sets of a Source take their resources from:
// directories, buckets, lists, feeds, repositories, and the API that applications call.
package origins

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lockstep/catalog"
	"lockstep/cmd/lockstep/internal/baseurl"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/hiddenfiles"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/intake"
	"lockstep/intake/bucket"
	"lockstep/intake/dir"
	"lockstep/intake/harvest/ledger"
	"lockstep/intake/jsonl"
	"lockstep/intake/sitemap"
	"lockstep/internal/fetch"
	"lockstep/internal/statedir"
	"lockstep/resourcesync"
)

// An Origin is the place that the resources of a set come from. It keeps the set in
// the catalog in step with that place; the package intake states the guarantees of
// each kind.
type Origin interface {
	// Scan brings the catalog in step with the place once.
	Scan(ctx context.Context) (intake.Report, error)

	// Watch does so until ctx ends, and calls onChange after each scan that
	// changed something or failed, because then it may have.
	Watch(ctx context.Context, onChange func(intake.Report)) error
}

// Files is an [Origin] whose resources are files on this machine, so that they can be
// served from here.
type Files interface {
	// Open opens the resource at the path rel below the set's URI; it fails with
	// fs.ErrNotExist if there is no such resource.
	Open(rel string) (*os.File, fs.FileInfo, error)

	// Mark returns a string that identifies the current state of the file that
	// Open opens: it changes whenever the file does.
	Mark(rel string) (string, error)
}

// Bitstreams is an [Origin] that can open the resources that it lists.
type Bitstreams interface {
	Bitstream(ctx context.Context, r *catalog.Record) (io.ReadCloser, error)
}

// A Set describes a set to the constructor of its origin.
type Set struct {
	Config       *config.Set // with the address of the origin
	Name         string
	List         string   // URI of its Capability List: its name in the catalog
	URI          string   // with which the URIs of its resources begin
	Others       []string // the same of all other sets
	Catalog      catalog.Catalog
	Hashes       []resourcesync.Algorithm
	ScanInterval time.Duration // negative: never
	OnEvent      func(intake.Event)
}

// An Opener opens the origins of the sets of one Source.
type Opener struct {
	State      string // directory for the state files of origins and their temporary files
	AllowEmpty bool   // a scan may delete all of a set
	Hidden     *hiddenfiles.Record
	Stdin      io.Reader
	LookupEnv  func(string) (string, bool)
	Client     func(home string) (*fetch.Client, error) // returns a client for requests to the server of home
	Ledger     ledger.Ledger                            // for harvested feeds
	Contents   intake.Contents                          // for harvested records, unless Files is set
	Files      *RecordFiles                             // where harvested records are written as files; nil: they are not
	API        *API                                     // through which applications fill sets
	Upstreams  Upstreams                                // how other Sources are followed
	Log        *slog.Logger
}

// Open returns the origin of a set.
func (o *Opener) Open(s *Set) (Origin, error) {
	switch kind := s.Config.Origin.Kind.Scheme; kind {
	case "dir":
		return o.openDir(s)
	case "s3":
		return o.openBucket(s)
	case "jsonl":
		return o.openJSONL(s)
	case "sitemap":
		return o.openSitemap(s)
	case "oai-pmh":
		return o.openRepository(s)
	case "atom-pmh":
		return o.openFeed(s)
	case "resourcesync":
		return o.openUpstream(s)
	case "api":
		return o.API.add(s)
	default:
		return nil, fmt.Errorf("no origin of kind %s", kind) // unreachable: the package config knows no other
	}
}

// openDir opens a directory.
func (o *Opener) openDir(s *Set) (Origin, error) {
	hidden, err := o.Hidden.Published(s.Name, s.Config.Hidden, func() (bool, error) {
		if known, err := baseurl.IsRecorded(o.Hidden.Notes, s.Name); known || err != nil {
			return known, err
		}
		st, err := s.Catalog.Status(context.Background(), s.List)
		return st.Last > 0, err
	})
	if err != nil {
		return nil, err
	}
	return dir.New(s.Config.Origin.Place, s.Catalog, s.List, dir.Options{
		BaseURI: s.URI, Algorithms: s.Hashes, Include: s.Config.Include, Exclude: s.Config.Exclude,
		Sidecar: s.Config.Sidecar, SkipHidden: !hidden, AllowEmpty: o.AllowEmpty, TempDir: o.State, ScanInterval: s.ScanInterval, OnEvent: s.OnEvent,
	})
}

// openBucket opens the objects of a bucket.
func (o *Opener) openBucket(s *Set) (Origin, error) {
	objects, err := mirror.OpenBucket(s.Config.Origin.String(), mirror.BucketClient{LookupEnv: o.LookupEnv, Network: o.Upstreams.Network, Log: o.Log})
	if err != nil {
		return nil, err
	}
	content := bucket.ReadNever
	if s.Config.HashesGiven {
		content = bucket.ReadAlways
	}
	return bucket.New(objects, s.Catalog, s.List, bucket.Options{
		BaseURI: s.URI, Content: content, Algorithms: s.Hashes, Include: s.Config.Include, Exclude: s.Config.Exclude,
		AllowEmpty: o.AllowEmpty, TempDir: o.State, ScanInterval: s.ScanInterval, OnEvent: s.OnEvent,
	})
}

// openJSONL opens a file of JSON lines, or standard input.
func (o *Opener) openJSONL(s *Set) (Origin, error) {
	var client *fetch.Client // for the resources, which are on other servers
	if s.Config.OpensBytes() {
		var err error
		if client, err = o.Client(s.URI); err != nil {
			return nil, err
		}
	}
	jo := jsonl.Options{
		Complete: s.Config.Complete, AllowEmpty: o.AllowEmpty, TempDir: o.State,
		State: o.stateFile(s, "jsonl.json"), ScanInterval: s.ScanInterval, Client: client, OnEvent: s.OnEvent,
	}
	if s.Config.Origin.Place == config.Stdin {
		return jsonl.NewStream(o.Stdin, "standard input", s.Catalog, s.List, jo), nil
	}
	return jsonl.New(s.Config.Origin.Place, s.Catalog, s.List, jo)
}

// openSitemap opens a sitemap at a URL or in a file.
func (o *Opener) openSitemap(s *Set) (Origin, error) {
	client, err := o.Client(s.Config.Origin.Place)
	if err != nil {
		return nil, err
	}
	return sitemap.New(s.Config.Origin.WithoutUser(), client, s.Catalog, s.List, sitemap.Options{
		Content: s.Config.HashesGiven, Algorithms: s.Hashes, AllowEmpty: o.AllowEmpty, TempDir: o.State,
		State: o.stateFile(s, "sitemap.json"), ScanInterval: s.ScanInterval, OnEvent: s.OnEvent,
	})
}

// stateFile returns the path of a file in which an origin stores its state.
func (o *Opener) stateFile(s *Set, name string) string {
	return filepath.Join(o.State, statedir.OriginFiles+s.Name+"-"+name)
}

// Content returns how representations of a set are opened: by its origin if that can
// open them, otherwise with requests to the server that has them, which are made only
// to build dumps and patches, never because a client asks for a resource. own reports
// whether the resources are served from here. open is nil if nothing is to be opened.
func (o *Opener) Content(from Origin, s *Set) (open func(context.Context, *catalog.Record) (io.ReadCloser, error), own bool, err error) {
	away := s.Config.Origin.Kind.Away
	if away && !s.Config.OpensBytes() {
		return nil, false, nil
	}
	if b, ok := from.(Bitstreams); ok {
		return b.Bitstream, !away, nil
	}
	client, err := o.Client(s.URI)
	if err != nil {
		return nil, false, err
	}
	return intake.NewWeb(client).Bitstream, false, nil
}

// Rehasher returns the reader that reads the files of a set again to find damage, a
// share of them each day; nil if there is nothing to read. A bucket needs none: it
// verifies what it stores.
func (o *Opener) Rehasher(from Origin, s *Set, share float64, onDamage func(dir.Damage)) *dir.Rehasher {
	d, ok := from.(*dir.Dir)
	if s.Config.Rehash != nil {
		share = float64(*s.Config.Rehash)
	}
	if !ok || share <= 0 {
		return nil
	}
	return dir.NewRehasher(d, dir.RehashOptions{Share: share, State: o.stateFile(s, "rehash.json"), OnDamage: onDamage})
}

// Interval converts a time between scans from the notation of flags, where 0
// means never, to that of the intake package.
func Interval(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// Hashes returns the algorithms that --hash names, in order.
func Hashes(names []string) ([]resourcesync.Algorithm, error) {
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
