package dump

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"lockstep/blob"
	"lockstep/destination/internal/content"
	"lockstep/internal/fetch"
	"lockstep/internal/unpack"
	"lockstep/resourcesync"
)

const (
	// perMember is the approximate size of a member's directory entry: it
	// determines how much of the end of a package is requested at once.
	perMember = 160
	maxTail   = 4 << 20

	// spoolMemory is the number of bytes of a whole package that are stored in
	// memory: a package made on demand is small.
	spoolMemory = 4 << 20
	// maxSpool limits a package that has to be stored whole if its dump does not
	// state its length, because it may never end.
	maxSpool = 32 << 30
)

// ErrNotWorth reports a package that would have to be fetched whole for little
// content.
var ErrNotWorth = errors.New("little is wanted of it, and the server sends no parts of it")

// A Package is the address of a package and what its dump states about it. The
// statements save requests, and are verified.
type Package struct {
	URI     string
	Length  int64               // as its dump states it; -1: not stated
	Hashes  resourcesync.Hashes // likewise
	Members int                 // number of members that its manifest names, or that are needed; zero: unknown

	Shelf *Shelf // stores packages that were fetched whole; may be nil
}

// An Opener opens packages. It is safe for concurrent use.
type Opener struct {
	client  *fetch.Client
	scratch blob.Scratcher // stores packages that are fetched whole; nil: not available
	all     bool           // verify all hashes that are stated, not only the strongest
	large   chan struct{}  // holds a token while a large directory is in memory
}

// NewOpener returns an opener that sends requests through c. With all, all hashes
// that are stated of a package or a copy of its manifest are verified, not only the
// strongest.
func NewOpener(c *fetch.Client, scratch blob.Scratcher, all bool) *Opener {
	return &Opener{client: c, scratch: scratch, all: all, large: make(chan struct{}, 1)}
}

// Open opens a package: its directory is read from its end, and its members are
// read by range requests. With whole, or from a server without ranges, the whole
// package is fetched first; unless worth is nil, it is asked before that. A package
// is compared with what its dump states as far as the bytes read allow. The warning
// describes harmless deviations.
func (k *Opener) Open(ctx context.Context, src *Package, whole bool, worth func(size int64) bool) (file File, warning string, err error) {
	o := &opening{k: k, src: src, whole: whole, worth: worth}
	if file, err = o.openVerified(ctx); err != nil {
		return nil, "", err
	}
	return file, o.warning, nil
}

// An opening is the state of opening a package.
type opening struct {
	k     *Opener
	src   *Package
	whole bool
	worth func(size int64) bool // asked before a package is fetched whole; nil: always fetch

	noCache bool // bypass all caches

	spool   *spool
	total   int64 // of the package
	hash    *resourcesync.Hasher
	n       int64 // bytes received
	end     int64 // where the package that is being received ends; at most 0: unknown
	file    File
	warning string // from verifying the package
}

// openVerified opens the package and compares it with the hash and length its dump
// states, as far as the bytes read allow (RS-ZIP-09). A package of another length
// is read whole if a hash can verify it; a package that was read whole and does not
// match is requested once more, bypassing all caches. The error for a package that
// does not match its dump is an [unverifiedError].
func (o *opening) openVerified(ctx context.Context) (File, error) {
	for {
		file, err := o.open(ctx)
		if err != nil {
			return nil, err
		}
		if o.warning, err = o.verify(); err == nil {
			return file, nil
		}
		_ = file.Close() // opened for reading only
		switch {
		case o.spool == nil && content.HasKnown(o.src.Hashes):
			o.whole = true
		case o.spool != nil && !o.noCache && ctx.Err() == nil:
			o.noCache = true
		default:
			return nil, &unverifiedError{o.src.URI, err}
		}
		o.spool, o.file, o.n, o.total = nil, nil, 0, 0
	}
}

// An unverifiedError reports a package that does not match its dump. Nothing in it
// is used, not even its manifest.
type unverifiedError struct {
	uri string
	err error
}

func (e *unverifiedError) Error() string {
	return fmt.Sprintf("package %s is not what its dump states: %v", fetch.Printable(e.uri), e.err)
}

func (e *unverifiedError) Unwrap() error { return e.err }

func IsUnverified(err error) bool {
	var unverified *unverifiedError
	return errors.As(err, &unverified)
}

// open requests the end of the package, or all of it.
func (o *opening) open(ctx context.Context) (File, error) {
	if o.spool = o.src.Shelf.take(o.src.URI); o.spool != nil {
		return o.reuse(ctx)
	}
	err := errNoEnd
	for _, r := range o.requests() {
		err = o.k.client.Fetch(ctx, r, func(resp *fetch.Response) error { return o.use(ctx, r, resp) })
		if !fetch.IsRange(err) && !errors.Is(err, errNoEnd) {
			break
		}
	}
	if err != nil {
		if o.spool != nil {
			_ = o.spool.Close() // its content is discarded
		}
		return nil, err
	}
	return o.file, nil
}

// errNoEnd reports a response that does not contain the end of the package.
var errNoEnd = errors.New("the server sends another part of it than was asked for")

// requests returns the requests for the end of the package, to be tried in order:
// by the offset of its start, because some servers do not support suffix ranges; by
// its length, if the total is unknown or wrong; and for the whole package, if it is
// empty or the server handles ranges incorrectly, once more if that was interrupted and
// what came then was not the rest of it.
func (o *opening) requests() []*fetch.Request {
	ask := func(from, last int64) *fetch.Request {
		return &fetch.Request{URI: o.src.URI, RangeFrom: from, RangeLast: last, Document: true, NoCache: o.noCache}
	}
	all, tail := ask(0, 0), o.guessTail()
	switch n := o.src.Length; {
	case o.whole:
		return []*fetch.Request{all, ask(0, 0)}
	case n > tail:
		return []*fetch.Request{ask(n-tail, 0), ask(0, tail), all, ask(0, 0)}
	}
	return []*fetch.Request{ask(0, tail), all, ask(0, 0)}
}

// reuse uses a package that was fetched before to read its manifest.
func (o *opening) reuse(ctx context.Context) (File, error) {
	o.hash, o.total, o.file = o.spool.hash, o.spool.n, o.spool
	hasher, sums := content.NewHasher(o.src.Hashes, o.k.all), o.hash.Sum()
	for _, h := range hasher.Sum() {
		if sums.Get(h.Algorithm) == "" {
			o.hash = hasher
			all := o.spool.Section(ctx, 0, o.total)
			if _, err := content.Copy(nil, o.hash, all); err != nil {
				_ = o.spool.Close() // opened for reading only
				return nil, err
			}
			break
		}
	}
	return o.file, nil
}

// guessTail returns the number of bytes at the end that are likely to contain the
// directory.
func (o *opening) guessTail() int64 {
	n := o.src.Members
	return max(unpack.TailSize, min(int64(n)*perMember, maxTail))
}

func (o *opening) use(ctx context.Context, r *fetch.Request, resp *fetch.Response) error {
	if resp.Status == http.StatusPartialContent && o.spool == nil {
		return o.takeTail(ctx, resp)
	}
	if o.worth != nil && !o.worth(resp.Length) {
		return ErrNotWorth
	}
	return o.fill(ctx, r, resp)
}

// takeTail opens the package with its last bytes.
func (o *opening) takeTail(ctx context.Context, resp *fetch.Response) error {
	rg := resp.Range
	n := rg.Last - rg.First + 1
	if rg.Last+1 != rg.Total || n > 2*maxTail {
		return errNoEnd
	}
	tail := make([]byte, n)
	if _, err := io.ReadFull(resp.Body, tail); err != nil {
		return err
	}
	o.total = rg.Total
	o.file = newRemotePackage(ctx, o.k.client, o.src.URI, resp, tail)
	return nil
}

// fill stores the whole package. If the body is interrupted, the rest is requested.
func (o *opening) fill(ctx context.Context, r *fetch.Request, resp *fetch.Response) error {
	if o.spool == nil {
		o.hash = content.NewHasher(o.src.Hashes, o.k.all)
		o.spool = &spool{hash: o.hash}
	}
	if resp.Status != http.StatusPartialContent {
		o.end = resp.Length
		if o.n > 0 {
			if err := o.spool.restart(); err != nil {
				return err
			}
			o.n = 0
			o.hash.Reset()
		}
	} else if reason := o.misfit(r, resp); reason != "" {
		return &fetch.RangeError{From: r.RangeFrom, ContentRange: resp.Header.Get("Content-Range"), Reason: reason}
	}
	limit := int64(maxSpool)
	if n := o.src.Length; n >= 0 && n < maxSpool/2 {
		limit = 2*n + 16<<20
	}
	o.spool.scratch = scratchOf(ctx, o.k.scratch)
	n, err := content.Copy(o.spool, o.hash, io.LimitReader(resp.Body, limit-o.n))
	o.n += n
	switch {
	case err == nil && o.n >= limit:
		return &content.Error{URI: o.src.URI, What: "length", Want: fmt.Sprint(o.src.Length), Got: fmt.Sprintf("more than %d", limit-1)}
	case err == nil:
		o.total, o.file = o.n, o.spool
		return nil
	}
	r.RangeLast, r.RangeFrom, r.IfRange = 0, 0, ""
	if etag := resp.Header.Get("ETag"); etag != "" && !strings.HasPrefix(etag, "W/") && resp.Header.Get("Content-Encoding") == "" {
		r.RangeFrom, r.IfRange = o.n, etag
	}
	return err
}

// misfit says why a partial response is not the rest of what was received; empty: it is.
func (o *opening) misfit(r *fetch.Request, resp *fetch.Response) string {
	end := resp.Range.Total
	if end < 0 {
		end = resp.Range.Last + 1 // the rest was requested
	}
	switch etag := resp.Header.Get("ETag"); {
	case etag != r.IfRange: // RFC 9110, section 15.3.7
		return "it is not a part of " + fetch.Printable(r.IfRange)
	case o.end > 0 && end != o.end:
		return fmt.Sprintf("the package that it should continue has %d bytes", o.end)
	}
	return ""
}

// verify checks the package as a whole, as far as possible (RS-ZIP-09).
func (o *opening) verify() (warning string, err error) {
	w := content.Description{URI: o.src.URI, Length: o.src.Length}
	var got resourcesync.Hashes
	if o.spool != nil {
		w.Hashes, got = o.src.Hashes, o.hash.Sum()
	}
	return content.Verify(w, o.total, got)
}

// A spool stores a whole package: in memory, and beyond spoolMemory in a temporary
// file.
type spool struct {
	scratch func() (blob.Scratch, error) // nil: no file is available
	mem     []byte
	file    blob.Scratch
	n       int64
	hash    *resourcesync.Hasher // of all of it
}

// scratchOf returns a function that creates a file from lender, which may be nil.
func scratchOf(ctx context.Context, lender blob.Scratcher) func() (blob.Scratch, error) {
	if lender == nil {
		return nil
	}
	return func() (blob.Scratch, error) { return lender.Scratch(ctx) }
}

func (s *spool) Write(p []byte) (int, error) {
	if s.file == nil && len(s.mem)+len(p) <= spoolMemory {
		s.mem = append(s.mem, p...)
		s.n += int64(len(p))
		return len(p), nil
	}
	if s.file == nil {
		if err := s.spill(); err != nil {
			return 0, err
		}
	}
	n, err := s.file.Write(p)
	s.n += int64(n)
	return n, err
}

// spill moves the content to a file.
func (s *spool) spill() error {
	if s.scratch == nil {
		return errors.New("there is no room for a package to be held whole")
	}
	f, err := s.scratch()
	if err != nil {
		return err
	}
	s.file = f
	if _, err := f.Write(s.mem); err != nil {
		return err
	}
	s.mem = nil
	return nil
}

func (s *spool) restart() error {
	s.mem, s.n = s.mem[:0], 0
	if s.file != nil {
		return s.file.Restart()
	}
	return nil
}

func (s *spool) ReadAt(b []byte, off int64) (int, error) {
	if s.file != nil {
		return s.file.ReadAt(b, off)
	}
	if off < 0 || off >= s.n {
		return 0, io.EOF
	}
	n := copy(b, s.mem[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (s *spool) Directory(l unpack.Limits) (*unpack.Directory, error) { return unpack.Read(s, s.n, l) }

func (s *spool) Section(ctx context.Context, from, to int64) io.ReadCloser {
	return io.NopCloser(content.WithContext(ctx, io.NewSectionReader(s, from, to-from)))
}

func (s *spool) Close() error {
	s.mem = nil
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file = nil
	return f.Close()
}
