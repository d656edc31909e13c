package dump

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"lockstep/internal/fetch"
	"lockstep/internal/sleep"
	"lockstep/internal/unpack"
)

var (
	// ErrChanged reports a package that is no longer the one whose directory was
	// read.
	ErrChanged = errors.New("the package changed while it was read")
	// ErrNoRanges reports a server that only sends whole packages.
	ErrNoRanges = errors.New("the server sends no parts of it")
)

// MaxReopen is how often a package is opened again because it changed.
const MaxReopen = 3

// MayReopen reports whether opening the package again may help.
func MayReopen(err error) bool {
	return errors.Is(err, ErrChanged) || errors.Is(err, ErrNoRanges)
}

// A File is a package with random access.
type File interface {
	// Directory reads the directory of members.
	Directory(l unpack.Limits) (*unpack.Directory, error)
	// Section reads the bytes from one offset up to another.
	Section(ctx context.Context, from, to int64) io.ReadCloser
	Close() error
}

// ManyMembers and manyBytes limit the directories of which several may be in memory
// at a time, enough for a manifest of 50,000 entries. Of larger directories only
// one is in memory at a time.
const (
	ManyMembers = 60_000
	manyBytes   = 8 << 20
)

// WithDirectory passes the directory of a package to use, and does not retain it.
func (k *Opener) WithDirectory(ctx context.Context, file File, use func(dir *unpack.Directory, large bool) error) error {
	dir, err := file.Directory(unpack.Limits{Members: ManyMembers, Directory: manyBytes})
	large := errors.Is(err, unpack.ErrLimit)
	if large {
		select {
		case k.large <- struct{}{}:
			defer func() { <-k.large }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		dir, err = file.Directory(unpack.Limits{})
	}
	if err != nil {
		return err
	}
	return use(dir, large)
}

const (
	// worthwhile is the number of bytes that a connection must deliver before it
	// breaks, for connections to be retried without limit.
	worthwhile = 64 << 10
	// maxBreaks is how many connections in a row may deliver less.
	maxBreaks = fetch.MaxTries
)

// A remotePackage is read by range requests.
type remotePackage struct {
	client   *fetch.Client
	uri      string
	total    int64
	etag     string // together with modified, identifies the version
	modified string

	tail  []byte         // the last bytes
	ahead *sectionReader // reads the part of the directory before tail

	openAhead func(off int64) *sectionReader // opens a reader from off, until the caller cancels

	err error // of reading the directory
}

// newRemotePackage returns a package for the response that contained its last
// bytes.
func newRemotePackage(ctx context.Context, c *fetch.Client, uri string, resp *fetch.Response, tail []byte) *remotePackage {
	p := &remotePackage{
		client: c, uri: uri, total: resp.Range.Total, tail: tail,
		etag: resp.Header.Get("ETag"), modified: resp.Header.Get("Last-Modified"),
	}
	p.openAhead = func(off int64) *sectionReader { return p.newSection(ctx, off, p.total) }
	return p
}

func (p *remotePackage) Directory(l unpack.Limits) (*unpack.Directory, error) {
	defer p.stopAhead() // releases the connection
	d, err := unpack.Read(p, p.total, l)
	if p.err != nil {
		return nil, p.err
	}
	return d, err
}

// ReadAt reads from a request that is kept open, because a directory is read from
// its beginning to its end.
func (p *remotePackage) ReadAt(b []byte, off int64) (int, error) {
	if off < 0 || off >= p.total {
		return 0, io.EOF
	}
	if p.ahead == nil || p.ahead.pos != off {
		p.stopAhead()
		p.ahead = p.openAhead(off)
	}
	n, err := io.ReadFull(p.ahead, b[:min(int64(len(b)), p.total-off)])
	switch {
	case err != nil:
		p.err = err
	case n < len(b):
		err = io.EOF
	}
	return n, err
}

// tailStart returns the offset of the tail that is in memory.
func (p *remotePackage) tailStart() int64 { return p.total - int64(len(p.tail)) }

func (p *remotePackage) stopAhead() {
	if p.ahead != nil {
		_ = p.ahead.Close() // everything useful was read
		p.ahead = nil
	}
}

func (p *remotePackage) Close() error { return nil }

func (p *remotePackage) Section(ctx context.Context, from, to int64) io.ReadCloser {
	return p.newSection(ctx, from, to)
}

func (p *remotePackage) newSection(ctx context.Context, from, to int64) *sectionReader {
	return &sectionReader{
		p: p, pos: from, end: to,
		get:  func(r fetch.Request) (*fetch.Response, error) { return p.client.Get(ctx, r) },
		wait: func(tries int) error { return pause(ctx, tries) },
	}
}

// A sectionReader reads part of a remotePackage. If the body is interrupted it
// requests the rest: the validators, and the checksums of the members, show whether
// the two parts belong together.
type sectionReader struct {
	p        *remotePackage
	get      func(fetch.Request) (*fetch.Response, error)
	wait     func(tries int) error // waits before the next attempt; returns an error when the caller cancels
	pos, end int64
	body     io.ReadCloser
	got      int64 // bytes from body
	breaks   int   // consecutive interruptions after too few bytes
	err      error // sticky
}

func (s *sectionReader) Read(b []byte) (int, error) {
	for s.err == nil {
		if s.pos >= s.end {
			s.err = io.EOF
			break
		}
		if from := s.p.tailStart(); s.pos >= from {
			s.stop()
			n := copy(b[:min(int64(len(b)), s.end-s.pos)], s.p.tail[s.pos-from:])
			s.pos += int64(n)
			return n, nil
		}
		if s.body == nil {
			if s.err = s.open(); s.err != nil {
				break
			}
		}
		end := s.bodyEnd()
		n, err := s.body.Read(b[:min(int64(len(b)), end-s.pos)])
		s.pos, s.got = s.pos+int64(n), s.got+int64(n)
		if err != nil && s.pos < end {
			s.err = s.broken(err)
		}
		if n > 0 {
			return n, nil
		}
	}
	s.stop()
	return 0, s.err
}

// bodyEnd returns the offset up to which bytes are requested: the rest is in
// memory.
func (s *sectionReader) bodyEnd() int64 { return min(s.end, s.p.tailStart()) }

// broken decides whether to request the rest.
func (s *sectionReader) broken(err error) error {
	s.stop()
	var body *fetch.BodyError
	if err != io.EOF && (!errors.As(err, &body) || !body.Retryable()) {
		return err
	}
	if s.breaks++; s.got >= worthwhile {
		s.breaks = 0
	}
	if s.breaks >= maxBreaks {
		if err == io.EOF {
			err = fmt.Errorf("get %s: %w", fetch.Printable(s.p.uri), io.ErrUnexpectedEOF)
		}
		return err
	}
	return s.wait(s.breaks)
}

// pause waits before the next attempt, longer after each.
func pause(ctx context.Context, tries int) error {
	if tries == 0 {
		return ctx.Err()
	}
	d := 30 * time.Millisecond << tries
	return sleep.For(ctx, d/2+rand.N(d/2))
}

// open asks for the bytes from pos on.
//
//bodyclose:handled
func (s *sectionReader) open() error {
	p := s.p
	// Without If-Range: if the package has changed, none of it is useful, least of
	// all its whole content.
	resp, err := s.get(fetch.Request{URI: p.uri, RangeFrom: s.pos, RangeTo: s.bodyEnd() - 1, Document: true})
	var status *fetch.StatusError
	switch {
	case errors.As(err, &status) && status.Status == http.StatusRequestedRangeNotSatisfiable:
		return ErrChanged
	case fetch.IsRange(err):
		return ErrNoRanges
	case err != nil:
		return err
	}
	if !p.isSame(resp) {
		_ = resp.Body.Close() // it is another version
		return ErrChanged
	}
	if resp.Status != http.StatusPartialContent {
		_ = resp.Body.Close() // it begins at offset zero
		return ErrNoRanges
	}
	s.body, s.got = resp.Body, 0
	return nil
}

// isSame reports whether a response belongs to the version that was opened. One
// matching validator is sufficient, because several servers behind one name often
// give one file different entity tags; members are verified in any case.
func (p *remotePackage) isSame(resp *fetch.Response) bool {
	total := resp.Length
	if resp.Status == http.StatusPartialContent {
		total = resp.Range.Total
	}
	if total >= 0 && total != p.total {
		return false
	}
	etag, modified := resp.Header.Get("ETag"), resp.Header.Get("Last-Modified")
	if etag == p.etag && (etag != "" || modified == p.modified) {
		return true
	}
	return modified != "" && modified == p.modified
}

func (s *sectionReader) stop() {
	if s.body != nil {
		_ = s.body.Close() // everything useful was read
		s.body = nil
	}
}

func (s *sectionReader) Close() error {
	s.stop()
	if s.err == nil {
		s.err = errors.New("read after close")
	}
	return nil
}

// Clip shortens untrusted text for a message.
func Clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
