// Package bucket keeps a set of a catalog in step with a bucket of objects, as
// S3-compatible services have them.
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

// Objects is a bucket, or what of it lies below a prefix, as a [Bucket] reads
// it; blob/s3 has one. All methods are safe for concurrent use. Errors name the
// bucket and the key.
type Objects interface {
	// Objects yields every object as the service lists it: its key below the
	// prefix as Name, any bytes; its entity tag without quotes, or "", as
	// Version. A listing that ends before its end yields an error last.
	Objects(ctx context.Context) iter.Seq2[blob.Info, error]

	// Head returns the header of the object of a key as HTTP has it, with
	// checksums if there are any, or fails with blob.ErrNotExist.
	Head(ctx context.Context, key string) (http.Header, error)

	// Get opens the object of a key as it is now, with its header, or fails with
	// blob.ErrNotExist. Bytes are as they are kept; when not all of them come,
	// reading fails.
	Get(ctx context.Context, key string) (io.ReadCloser, http.Header, error)

	// String names the bucket for people.
	String() string
}

// A Reading says whether the content of objects is read, which costs their
// transfer, to know their hashes.
type Reading uint8

// The kinds of Reading.
const (
	ReadNever   Reading = iota // hashes are those the bucket knows
	ReadMissing                // objects of which it knows none are read
	ReadAlways                 // every new or changed object is read
)

// Options configures a [Bucket]. Only BaseURI is required.
type Options struct {
	// BaseURI is the URI under which the bucket, or the prefix, is published; a
	// slash is added if it does not end in one.
	BaseURI string

	// Content says when objects are read.
	Content Reading

	// Algorithms are the hashes recorded of objects that are read; default MD5
	// and SHA-256.
	Algorithms []resourcesync.Algorithm

	// Include and Exclude are globs on keys below the prefix, as those of a
	// directory are on paths.
	Include, Exclude []string

	// AllowEmpty lets a scan delete everything if the bucket is empty.
	AllowEmpty bool

	// TempDir is for a file without a name that a scan of more than some hundred
	// thousand objects needs; default the system's.
	TempDir string

	// ScanInterval is the time between two scans of Watch, which rests at least
	// as long as a scan takes; default DefaultBucketInterval, negative: one scan
	// only.
	ScanInterval time.Duration

	Requests int // to the bucket at a time; default DefaultRequests

	// OnEvent is told what happens, never concurrently; may be nil. It must not
	// call the Bucket.
	OnEvent func(intake.Event)
}

const (
	// DefaultInterval: listing a million objects takes a thousand
	// requests, each of which costs money at most providers.
	DefaultInterval = 5 * time.Minute

	// DefaultRequests makes up for the time each takes and bothers no service.
	DefaultRequests = 16
)

// A Bucket keeps a set of a catalog in step with a bucket. Only one Bucket may
// fill a set. Its methods are safe for concurrent use; scans take turns.
//
// Every scan lists the whole bucket. An object is looked at (its header, or its
// content too) when it is new, or when its entity tag, size or time of
// modification differ from those remembered in [catalog.Record.Token].
//
// # Which objects are resources
//
// Every object is, whatever its key, except
//
//   - what the include and exclude patterns leave out;
//   - what a Source's own documents would hide, as in a directory;
//   - empty objects whose keys end in a slash: what tools make for directories;
//   - keys no URI can lead to: with a segment "." or "..", which readers of
//     URIs resolve, with a NUL byte, or not UTF-8, which cannot be asked for.
//
// Empty segments are part of a URI like others: a//b is listed.
//
// # What is said of them
//
// The media type is the object's Content-Type, or where that says nothing
// (application/octet-stream) the type for the extension of the key. The content
// coding is the object's Content-Encoding. Hashes are, if the object is not
// read,
//
//   - the SHA-256, SHA-1 or SHA-512 the service computed when it took the
//     object, if it tells and it is of the whole: not of a multipart upload, of
//     which it has a hash of hashes;
//   - the entity tag, as MD5, if it has the form of one and is known to be one:
//     the object was not uploaded in parts, nor encrypted with keys that are not
//     the service's own, and the smallest objects of the bucket were read to see
//     that their entity tags are their MD5. Services exist where they are not.
//
// A resource without hashes counts as changed when its time of modification is
// another.
//
// # What is never done
//
// A listing that does not come to its end deletes nothing. One that contradicts
// itself, or the objects (keys twice or out of order, sizes that are not those
// of the objects, objects that are there and not listed) deletes nothing
// either, and Scan returns a [ListingError]; what is new is taken in. Before a
// resource is deleted its object is asked for once more. An object that is
// listed, but not there, or that cannot be looked at, is reported and stays in
// the catalog as it was, as does everything if the bucket is suddenly empty
// ([ErrEmpty]).
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

// New returns a Bucket that fills the set of cat from the objects.
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

// Scan brings the catalog in step with the bucket. The Report is right, as far
// as the scan came, with an error too; then nothing has been deleted, though
// what is new may have been put in.
func (b *Bucket) Scan(ctx context.Context) (intake.Report, error) {
	b.scanning.Lock()
	defer b.scanning.Unlock()
	s := newScan(b)
	defer s.close()
	err := s.run(ctx)
	r := s.Report()
	if err != nil {
		if err = intake.Cause(ctx, err); strings.Contains(err.Error(), fmt.Sprint(b.objects)) {
			return r, err // once is enough
		}
		return r, fmt.Errorf("scan %s: %w", b.objects, err)
	}
	return r, nil
}

// Bitstream opens the present content of the object of r. It fails with
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

// URI returns the URI of the object of a key.
func (b *Bucket) URI(key string) string { return b.base + pathname.EscapePath(key) }

// Key undoes [Bucket.URI]. It reports false for a URI that no object here has.
func (b *Bucket) Key(uri string) (key string, ok bool) {
	path, ok := strings.CutPrefix(uri, b.base)
	if !ok {
		return "", false
	}
	key, ok = pathname.Unescape(path)
	return key, ok && addressable(key) == nil
}
