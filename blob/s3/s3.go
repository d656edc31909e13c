// Package s3 stores blobs in a bucket of Amazon S3 or of a compatible service.
//
//	b, err := s3.New(s3.Options{Bucket: "data", Prefix: "www", Region: "eu-central-1", AccessKey: …, SecretKey: …})
//	w, err := b.Create(ctx, "docs/a.xml") // s3://data/www/docs/a.xml
//
// A [Bucket] is a [blob.Store]. A blob is the object whose key is the prefix and the name, so that
// a web server, or the bucket itself, serves it under that path. Written bytes stay in memory up to
// a limit; larger blobs are sent to the bucket meanwhile as the parts of a multipart upload. Commit
// makes an object visible as a whole, or not at all.
//
// # Differences from a directory
//
//   - A name must be UTF-8, and with the prefix at most 1,024 bytes; any other is refused with
//     [blob.ErrName].
//   - A name may be a blob and a prefix of other names at once, unless the service itself stores
//     objects as files.
//   - A Reader of a blob larger than [Options.Memory] reads it piece by piece. Each piece is
//     requested by entity tag: once the blob is replaced or removed, the Reader fails
//     ([ErrChanged]) instead of mixing two versions.
//   - Modification times set by the writer are stored in the metadata field mtime, in the form
//     other tools use (seconds since 1970, with a fraction). For a large blob, the time must be set
//     before the first part is sent. List does not see metadata and returns the time at which the
//     bucket stored the object.
//   - Unfinished blobs cannot be resumed ([blob.Resumer]): an unfinished upload cannot be read.
//     [Bucket.Sweep] removes the uploads of processes that died.
//   - After an error of Commit the failed blob may be visible, whole: the answer may have been
//     lost, not the request.
//
// A Bucket also shows the objects as they are, for package intake: [Bucket.Objects], [Bucket.Head],
// [Bucket.Get].
package s3

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"lockstep/blob"
)

// Options configures a [Bucket]. Only Bucket is required.
type Options struct {
	// Endpoint is the address of the service, such as http://127.0.0.1:9000; the
	// default scheme is https, the default address Amazon's.
	Endpoint string

	Bucket string
	Prefix string // begins every key; a slash is added if it does not end in one
	Region string // default: determined by a request if the service is Amazon's; else us-east-1

	// AccessKey and SecretKey sign requests; temporary keys need a SessionToken
	// too. Without them requests are not signed, which public buckets accept.
	AccessKey, SecretKey, SessionToken string

	// Attributes returns the media type and the Cache-Control of a blob, each ""
	// for none. May be nil.
	Attributes func(name string) (contentType, cacheControl string)

	// Memory is how many bytes of a blob are held in memory, while it is written
	// and while it is read; default DefaultMemory, at least 5 MiB, the minimum size
	// of a part.
	Memory int

	// Held is how many bytes of memory all Writers use together; default
	// DefaultHeld. The rest goes to files.
	Held int64

	// TempDir is for unnamed files used when many blobs are written at a time;
	// default the system's.
	TempDir string

	// Parallel is how many blobs of one Commit are stored at a time; default 1: one
	// after the other, in the order given. With more there is no order, and after
	// an error more of them may be visible than the error says: committing those
	// again costs nothing.
	Parallel int

	// MayWrite, if not nil, is for a bucket to which several processes write. It returns
	// why this one must not, and is called before each request that changes something and
	// while its body is sent. Then objects are put only where nothing else has been
	// written since they were last looked at; see [Bucket.Commit].
	MayWrite func() error

	Attempts  int               // of each request, with growing pauses; default DefaultAttempts
	Abandoned time.Duration     // age from which Sweep considers an upload abandoned; default DefaultAbandoned
	Transport http.RoundTripper // default: one with reasonable timeouts
}

// Defaults of [Options].
const (
	DefaultMemory    = 8 << 20        // large enough to be worth a request
	DefaultHeld      = 48 << 20       // parts of several blobs at a time
	DefaultAttempts  = 6              // about three seconds of pauses
	DefaultAbandoned = 24 * time.Hour // no blob takes so long to write; other processes may be writing

	minMemory       = 5 << 20
	defaultEndpoint = "https://s3.amazonaws.com"
)

// A Bucket is a [blob.Store] of the objects below a prefix. Its methods are safe
// for concurrent use.
type Bucket struct {
	opts    Options
	core    minio.Core
	service service
	prefix  string
	held    atomic.Int64 // bytes of memory that buffers use
	writing noteKeys     // of the uploads of open Writers
}

var (
	_ blob.Store   = (*Bucket)(nil)
	_ blob.Sweeper = (*Bucket)(nil)
)

// New returns a Bucket. It sends no request.
func New(o Options) (*Bucket, error) {
	endpoint, err := parseEndpoint(o.Endpoint)
	if err != nil {
		return nil, err
	}
	if o.Bucket == "" || strings.ContainsRune(o.Bucket, '/') {
		return nil, fmt.Errorf("bucket %q: not a name for a bucket", o.Bucket)
	}
	if (o.AccessKey == "") != (o.SecretKey == "") {
		return nil, fmt.Errorf("bucket %s: an access key and a secret key go together, one is missing", o.Bucket)
	}
	if o.Prefix != "" && !strings.HasSuffix(o.Prefix, "/") {
		o.Prefix += "/"
	}
	if !utf8.ValidString(o.Prefix) || len(o.Prefix) >= maxKey {
		return nil, fmt.Errorf("bucket %s: prefix %q: must be UTF-8 and shorter than %d bytes", o.Bucket, o.Prefix, maxKey)
	}
	o = o.withDefaults(endpoint)
	creds := credentials.New(&credentials.Static{Value: credentials.Value{SignerType: credentials.SignatureAnonymous}})
	if o.AccessKey != "" {
		creds = credentials.NewStaticV4(o.AccessKey, o.SecretKey, o.SessionToken)
	}
	client, err := minio.New(endpoint.Host, &minio.Options{
		Creds: creds, Secure: endpoint.Scheme == "https", Region: o.Region,
		Transport: guard{permitted(o.Transport, o.MayWrite)}, MaxRetries: o.Attempts,
	})
	if err != nil {
		return nil, fmt.Errorf("bucket %s: endpoint %s: %w", o.Bucket, endpoint, err)
	}
	return &Bucket{
		opts: o, core: minio.Core{Client: client}, prefix: o.Prefix,
		service: service{where: endpoint.String(), signed: o.AccessKey != ""},
	}, nil
}

func (o Options) withDefaults(endpoint *url.URL) Options {
	if o.Region == "" && !strings.HasSuffix(endpoint.Hostname(), ".amazonaws.com") {
		o.Region = "us-east-1" // other services ignore it, and need no request
	}
	if o.Memory <= 0 {
		o.Memory = DefaultMemory
	}
	o.Memory = max(o.Memory, minMemory)
	if o.Held <= 0 {
		o.Held = DefaultHeld
	}
	if o.Attempts <= 0 {
		o.Attempts = DefaultAttempts
	}
	if o.Abandoned <= 0 {
		o.Abandoned = DefaultAbandoned
	}
	if o.Transport == nil {
		o.Transport = NewTransport(nil)
	}
	return o
}

// parseEndpoint returns the scheme and host of an endpoint.
func parseEndpoint(s string) (*url.URL, error) {
	if s == "" {
		s = defaultEndpoint
	}
	if !strings.Contains(s, "://") {
		s = "https://" + s
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("endpoint %q: want http://HOST[:PORT] or https://HOST[:PORT]", withoutUser(s))
	}
	u.Path = ""
	return u, nil
}

// withoutUser returns an address without credentials.
func withoutUser(address string) string {
	before, rest, _ := strings.Cut(address, "://")
	return before + "://" + rest[strings.LastIndexByte(rest, '@')+1:]
}

// ParseURL returns the bucket and the prefix, without a trailing slash, of an
// address such as s3://bucket/prefix.
func ParseURL(s string) (bucket, prefix string, err error) {
	rest, ok := strings.CutPrefix(s, "s3://")
	bucket, prefix, _ = strings.Cut(rest, "/")
	if !ok || bucket == "" {
		return "", "", fmt.Errorf("%q: want s3://BUCKET or s3://BUCKET/PREFIX", s)
	}
	return bucket, strings.TrimSuffix(prefix, "/"), nil
}

// String returns the address of the bucket: s3://bucket/prefix/.
func (b *Bucket) String() string { return "s3://" + b.opts.Bucket + "/" + b.prefix }

// maxKey is the maximum length of a key, in bytes.
const maxKey = 1024

// errUTF8 reports a name that cannot be a key.
var errUTF8 = errors.New("a key is UTF-8, not blank, and at most 1,024 bytes long")

// key returns the key of the blob called name.
func (b *Bucket) key(name string) (string, error) {
	if !blob.ValidName(name) {
		return "", blob.ErrName
	}
	key := b.prefix + name
	if !validKey(key) {
		return "", fmt.Errorf("%w: %w", blob.ErrName, errUTF8)
	}
	return key, nil
}

func validKey(key string) bool {
	return len(key) <= maxKey && utf8.ValidString(key) && strings.TrimSpace(key) != ""
}
