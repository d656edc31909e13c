// Package bucket keeps a set of a catalog in step with a bucket of objects in an
// S3-compatible service.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"strings"
	"sync"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/internal/pathname"
	"lockstep/resourcesync"
)

// Objects is a bucket, or the part of it below a prefix, as a [Bucket] reads it;
// package blob/s3 implements it. All methods are safe for concurrent use. Errors
// name the bucket and the key.
type Objects interface {
	// Objects yields every object as the service lists it: its key below the
	// prefix as Name, which may contain any bytes; its entity tag without quotes,
	// or "", as Version. If a listing breaks off, an error is yielded last.
	Objects(ctx context.Context) iter.Seq2[blob.Info, error]

	// Head returns the HTTP header of the object with a key, with checksums if the
	// service has any, or fails with blob.ErrNotExist.
	Head(ctx context.Context, key string) (http.Header, error)

	// Get opens the present content of the object with a key and returns its
	// header, or fails with blob.ErrNotExist. The bytes are those stored; if the
	// transfer breaks off, reading fails.
	Get(ctx context.Context, key string) (io.ReadCloser, http.Header, error)

	// String returns a name of the bucket for messages.
	String() string
}

// A Reading specifies whether the content of objects is read, and so transferred,
// to compute hashes.
type Reading uint8

// The kinds of Reading.
const (
	ReadNever   Reading = iota // only hashes that the bucket reports are used
	ReadMissing                // objects for which it reports no hashes are read
	ReadAlways                 // every new or changed object is read
)

// Options configures a [Bucket]. Only BaseURI is required.
type Options struct {
	// BaseURI is the URI at which the bucket, or the prefix, is published; a
	// slash is added if it does not end in one.
	BaseURI string

	// Content specifies which objects are read.
	Content Reading

	// Algorithms are the hashes recorded for objects that are read; default MD5
	// and SHA-256.
	Algorithms []resourcesync.Algorithm

	// Include and Exclude are globs that are matched against keys below the prefix,
	// as those of a directory are matched against paths.
	Include, Exclude []string

	// AllowEmpty lets a scan delete everything if the bucket is empty.
	AllowEmpty bool

	// TempDir is for an unnamed temporary file, which a scan needs if there are
	// more than some hundred thousand objects; default: that of the system.
	TempDir string

	// ScanInterval is the time between two scans of Watch, which pauses at least
	// as long as a scan takes; default [DefaultInterval]; negative: one scan only.
	ScanInterval time.Duration

	Requests int // concurrent requests to the bucket; default DefaultRequests

	// OnEvent receives events, never concurrently; may be nil. It must not call
	// the Bucket.
	OnEvent func(intake.Event)
}

const (
	// DefaultInterval takes costs into account: listing a million objects takes a
	// thousand requests, each of which costs money at most providers.
	DefaultInterval = 5 * time.Minute

	// DefaultRequests compensates for the latency of a request and burdens no service.
	DefaultRequests = 16
)

// A Bucket keeps a set of a catalog in step with a bucket. Only one Bucket may
// fill a set. Its methods are safe for concurrent use; scans run one at a time.
//
// Every scan lists the whole bucket. An object is examined (its header, or its
// content too) if it is new, or if its entity tag, size or modification time
// differ from those remembered in [catalog.Record.Token].
//
// # Which objects are resources
//
// Every object is a resource, whatever its key, except
//
//   - objects that the include and exclude patterns leave out;
//   - objects that a Source's own documents would hide, as in a directory;
//   - empty objects whose keys end in a slash, which tools create for directories;
//   - keys that no URI can reach: keys with a segment "." or "..", which URI
//     parsers resolve, with a NUL byte, or not in UTF-8, which cannot be requested.
//
// Empty segments are an ordinary part of a URI: a//b is listed.
//
// # How objects are described
//
// The media type is the object's Content-Type or, if that is unspecific
// (application/octet-stream), the type for the extension of the key. The content
// coding is the object's Content-Encoding. If the object is not read, its hashes are
//
//   - the SHA-256, SHA-1 or SHA-512 that the service computed when it received the
//     object, if the service reports it and it covers the whole object; for a
//     multipart upload the service has only a hash of hashes;
//   - the entity tag, as MD5, if it has the form of one and is known to be one:
//     the object was uploaded neither in parts nor encrypted with keys other than
//     the service's own, and reading the smallest objects of the bucket has shown
//     that their entity tags are their MD5. With some services they are not.
//
// A resource without hashes counts as changed when its modification time changes.
//
// # What a scan never does
//
// A listing that does not reach its end deletes nothing. A listing that contradicts
// itself or the objects (duplicate or misordered keys, sizes that differ from those
// of the objects, existing objects that are missing) deletes nothing either, and
// Scan returns a [ListingError]; new objects are still added. Before a resource is
// deleted its object is requested once more. An object that is listed but does not
// exist, or that cannot be examined, is reported and stays in the catalog as it
// was. So does everything if the bucket is suddenly empty ([intake.ErrEmpty]).
type Bucket struct {
	objects Objects
	base    string
	cat     catalog.Catalog
	set     string
	o       Options
	filter  *pathname.Filter
	prefix  string // of Tokens

	scanning sync.Mutex // held by a scan
	events   intake.Reporter
}

// New returns a Bucket that fills the set of cat from objects.
func New(objects Objects, cat catalog.Catalog, set string, o Options) (*Bucket, error) {
	b := &Bucket{objects: objects, cat: cat, set: set}
	var err error
	if b.base, err = pathname.ParseBase(o.BaseURI); err != nil {
		return nil, err
	}
	if b.filter, err = pathname.NewFilter(o.Include, o.Exclude); err != nil {
		return nil, err
	}
	o.Algorithms = intake.Algorithms(o.Algorithms)
	if o.ScanInterval == 0 {
		o.ScanInterval = DefaultInterval
	}
	if o.Requests <= 0 {
		o.Requests = DefaultRequests
	}
	b.o = o
	b.events.OnEvent = o.OnEvent
	b.prefix = tokenPrefix(o.Content, o.Algorithms)
	return b, nil
}

// Scan brings the catalog in step with the bucket. The Report is correct, as far
// as the scan got, even if there is an error; then nothing has been deleted, though
// new objects may have been added.
func (b *Bucket) Scan(ctx context.Context) (intake.Report, error) {
	b.scanning.Lock()
	defer b.scanning.Unlock()
	s := newScan(b)
	defer s.close()
	err := s.run(ctx)
	r := s.Report()
	if err != nil {
		if err = intake.Cause(ctx, err); strings.Contains(err.Error(), fmt.Sprint(b.objects)) {
			return r, err // the listing error is enough
		}
		return r, fmt.Errorf("scan %s: %w", b.objects, err)
	}
	return r, nil
}

// Bitstream opens the present content of the object of r. The error matches
// [fs.ErrNotExist] if there is none.
func (b *Bucket) Bitstream(ctx context.Context, r *catalog.Record) (io.ReadCloser, error) {
	key, ok := b.Key(r.URI)
	if !ok {
		return nil, fmt.Errorf("open %s: not of %s: %w", r.URI, b.objects, fs.ErrNotExist)
	}
	body, _, err := b.objects.Get(ctx, key)
	if errors.Is(err, blob.ErrNotExist) {
		return nil, fmt.Errorf("open %s: %w: %w", r.URI, err, fs.ErrNotExist)
	}
	return body, err
}

// URI returns the URI of the object with a key.
func (b *Bucket) URI(key string) string { return b.base + pathname.EscapePath(key) }

// Key is the inverse of [Bucket.URI]. It reports false for a URI that no object of
// the bucket can have.
func (b *Bucket) Key(uri string) (key string, ok bool) {
	path, ok := strings.CutPrefix(uri, b.base)
	if !ok {
		return "", false
	}
	key, ok = pathname.Unescape(path)
	return key, ok && addressable(key) == nil
}
