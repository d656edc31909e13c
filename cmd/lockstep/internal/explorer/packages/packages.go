// Package packages opens the packages of dumps: in a file, or over the network, where
// only the directory and the members that are looked at are read.
package packages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"

	"lockstep/cmd/lockstep/internal/explorer/reading"
	"lockstep/cmd/lockstep/internal/explorer/spool"
	"lockstep/internal/fetch"
	"lockstep/internal/unpack"
	"lockstep/resourcesync"
)

const (
	// maxWhole caps a package that has to be fetched as a whole, because its server
	// sends no parts: it limits the space in the directory for temporary files.
	maxWhole = 2 << 30
	// maxManifest caps the manifest of a package, uncompressed.
	maxManifest = 128 << 20
)

// A Package is an open ZIP package. It is safe for concurrent use.
type Package struct {
	Name  string // its address or path
	Size  int64
	Whole bool // it was fetched as a whole
	*unpack.Directory

	open  func(ctx context.Context, offset, size int64) (io.ReadCloser, error)
	close func() error
}

// Close releases what the package needs.
func (p *Package) Close() error { return p.close() }

// File opens the package in a file.
func File(name string) (*Package, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return fromFile(f, name, info.Size(), f.Close)
}

func fromFile(f *os.File, name string, size int64, closeFile func() error) (*Package, error) {
	d, err := unpack.Read(f, size, unpack.Limits{})
	if err != nil {
		_ = closeFile()
		return nil, fmt.Errorf("read %s: %w", fetch.Printable(name), err)
	}
	return &Package{Name: name, Size: size, Directory: d, close: closeFile, open: func(_ context.Context, offset, size int64) (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(f, offset, size)), nil
	}}, nil
}

// Open opens the package at an address: by parts if its server sends parts, otherwise
// whole, into a temporary file in the directory dir.
func Open(ctx context.Context, c *fetch.Client, uri, dir string) (*Package, error) {
	tail, err := c.Get(ctx, request(uri, func(r *fetch.Request) { r.RangeLast = unpack.TailSize }))
	if err != nil {
		var status *fetch.StatusError
		if !fetch.IsRange(err) && (!errors.As(err, &status) || status.Status != http.StatusRequestedRangeNotSatisfiable) {
			return nil, err
		}
		if tail, err = c.Get(ctx, request(uri, func(*fetch.Request) {})); err != nil {
			return nil, err
		}
	}
	defer tail.Body.Close()
	if tail.Status != http.StatusPartialContent || tail.Range.Total < 0 {
		return fetchWhole(tail, uri, dir)
	}
	last, err := io.ReadAll(io.LimitReader(tail.Body, unpack.TailSize+1))
	if err != nil {
		return nil, err
	}
	etag, modified := fetch.Validators(tail.Header)
	r := &ranged{client: c, uri: uri, size: tail.Range.Total, tail: last, tailAt: tail.Range.First, validator: etag}
	if r.validator == "" {
		r.validator = modified
	}
	d, err := unpack.Read(boundReader{ctx.Done(), func(b []byte, at int64) (int, error) { return r.readAt(ctx, b, at) }}, r.size, unpack.Limits{})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", fetch.Printable(uri), err)
	}
	return &Package{Name: uri, Size: r.size, Directory: d, open: r.open, close: func() error { return nil }}, nil
}

func request(uri string, edit func(*fetch.Request)) fetch.Request {
	r := fetch.Request{URI: uri, Header: http.Header{"Accept-Encoding": {"identity"}}}
	edit(&r)
	return r
}

// fetchWhole stores a package in a temporary file.
func fetchWhole(resp *fetch.Response, uri, dir string) (*Package, error) {
	f, err := os.CreateTemp(dir, "lockstep-explore-*.zip")
	if err != nil {
		return nil, fmt.Errorf("create a temporary file: %w", err)
	}
	_ = os.Remove(f.Name()) // where an open file can be removed
	remove := func() error {
		err := f.Close()
		if rerr := os.Remove(f.Name()); rerr != nil && !errors.Is(rerr, os.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
		return err
	}
	n, err := io.Copy(f, io.LimitReader(resp.Body, maxWhole+1))
	if err == nil && n > maxWhole {
		err = fmt.Errorf("read %s: %w: its server sends no parts of it, and it has more than %d bytes", fetch.Printable(uri), fetch.ErrTooLarge, int64(maxWhole))
	}
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	p, err := fromFile(f, uri, n, remove)
	if err != nil {
		return nil, err
	}
	p.Whole = true
	return p, nil
}

// A boundReader is an io.ReaderAt for the time of one call.
type boundReader struct {
	done <-chan struct{}
	read func(b []byte, at int64) (int, error)
}

// ReadAt implements io.ReaderAt.
func (r boundReader) ReadAt(b []byte, at int64) (int, error) {
	select {
	case <-r.done:
		return 0, context.Canceled
	default:
		return r.read(b, at)
	}
}

// A ranged reads a package by parts.
type ranged struct {
	client    *fetch.Client
	uri       string
	size      int64
	validator string

	tail    []byte // the end of the package
	tailAt  int64
	block   []byte // what was requested last for the directory
	blockAt int64
}

// blockSize is how much of the directory of a package is requested at a time.
const blockSize = 1 << 20

func (r *ranged) readAt(ctx context.Context, b []byte, at int64) (int, error) {
	if at >= r.tailAt && at-r.tailAt <= int64(len(r.tail)) {
		n := copy(b, r.tail[at-r.tailAt:])
		if n < len(b) {
			return n, io.EOF
		}
		return n, nil
	}
	if at < r.blockAt || at >= r.blockAt+int64(len(r.block)) {
		body, err := r.open(ctx, at, max(int64(len(b)), blockSize))
		if err != nil {
			return 0, err
		}
		defer body.Close()
		if r.block, err = io.ReadAll(body); err != nil {
			return 0, err
		}
		r.blockAt = at
	}
	n := copy(b, r.block[at-r.blockAt:])
	if n < len(b) {
		if at+int64(n) >= r.size || n == 0 {
			return n, io.EOF
		}
		more, err := r.readAt(ctx, b[n:], at+int64(n))
		return n + more, err
	}
	return n, nil
}

// open requests size bytes from offset on.
func (r *ranged) open(ctx context.Context, offset, size int64) (io.ReadCloser, error) {
	last := min(offset+size, r.size) - 1
	if last < offset {
		return io.NopCloser(&io.LimitedReader{}), nil
	}
	resp, err := r.client.Get(ctx, request(r.uri, func(q *fetch.Request) {
		q.RangeFrom, q.RangeTo, q.IfRange = offset, last, r.validator
	}))
	if err != nil {
		return nil, err
	}
	if resp.Status != http.StatusPartialContent {
		if offset == 0 { // a range from the first byte on may be answered with everything
			return &limited{io.LimitReader(resp.Body, size), resp.Body}, nil
		}
		_ = resp.Body.Close()
		return nil, fmt.Errorf("read %s: %w", fetch.Printable(r.uri), fetch.ErrChanged)
	}
	return &limited{io.LimitReader(resp.Body, size), resp.Body}, nil
}

type limited struct {
	io.Reader
	io.Closer
}

// ErrNoMember reports a name that no member of a package has.
var ErrNoMember = errors.New("the package has no such member")

// Member opens the member with exactly this name.
func (p *Package) Member(ctx context.Context, name string) (io.ReadCloser, *unpack.Member, error) {
	for i := range p.Members {
		m := &p.Members[i]
		if m.Name != name || m.IsDir() {
			continue
		}
		if why := m.Refused(); why != "" {
			return nil, m, fmt.Errorf("open %s: %s", fetch.Printable(name), why)
		}
		local, err := p.open(ctx, m.Offset, m.Extent())
		if err != nil {
			return nil, m, err
		}
		content, err := m.Open(local)
		if err != nil {
			_ = local.Close()
			return nil, m, err
		}
		return &both{content, local}, m, nil
	}
	return nil, nil, fmt.Errorf("open %s: %w", fetch.Printable(name), ErrNoMember)
}

// both closes a member, and what it is read from.
type both struct {
	io.ReadCloser
	local io.Closer
}

// Close implements io.Closer.
func (b *both) Close() error { return errors.Join(b.ReadCloser.Close(), b.local.Close()) }

// Origin returns the rows of the package: the entries of its manifest, each with the
// member that it names, and then the members that the manifest does not name.
func (p *Package) Origin() reading.Origin {
	return reading.Fixed(func(ctx context.Context, add func(*spool.Row) error) (reading.Result, error) {
		result := reading.Result{Title: "ZIP package", Of: reading.Members}
		named := map[string]bool{}
		manifest, _ := p.Manifest()
		if manifest == nil {
			result.Warnings = append(result.Warnings, "the package has no manifest")
		} else {
			named[manifest.Name] = true
			if err := p.entries(ctx, manifest, named, &result, add); err != nil {
				return result, err
			}
		}
		for i := range p.Members {
			m := &p.Members[i]
			if named[m.Name] || m.IsDir() {
				continue
			}
			row := spool.Row{URI: m.Name, Length: m.Size, Kind: "not in the manifest", Detail: spool.Detail{Path: m.Name}}
			if err := add(&row); err != nil {
				return result, err
			}
		}
		return result, nil
	})
}

// entries adds the entries of the manifest.
func (p *Package) entries(ctx context.Context, manifest *unpack.Member, named map[string]bool, result *reading.Result, add func(*spool.Row) error) error {
	content, _, err := p.Member(ctx, manifest.Name)
	if err != nil {
		return err
	}
	defer content.Close()
	r := resourcesync.NewReader(content, resourcesync.ReaderOptions{MaxBytes: maxManifest, OnWarning: func(w resourcesync.Warning) {
		if len(result.Warnings) < 100 {
			result.Warnings = append(result.Warnings, fetch.Printable(w.String()))
		}
	}})
	for e, err := range r.Entries() {
		if err != nil {
			result.Warnings = append(result.Warnings, "the manifest cannot be read: "+fetch.Printable(err.Error()))
			return nil // the members can still be looked at
		}
		row := reading.RowOf(&e)
		if m, ok := p.Find(e.Path); ok {
			named[m.Name], row.Detail.Path = true, m.Name
			if row.Length < 0 {
				row.Length = m.Size
			}
		} else if e.Path != "" {
			row.Detail.Facts = append(row.Detail.Facts, spool.Fact{Name: "path", Value: e.Path + " (the package has no such member)"})
			row.Detail.Path = ""
		}
		if err := add(&row); err != nil {
			return err
		}
	}
	if h, err := r.Header(); err == nil {
		result.Title = "ZIP package, " + reading.Title(h.Capability, false)
	}
	return nil
}

// A Shelf keeps the packages that were opened last.
type Shelf struct {
	mu      sync.Mutex               // guards what follows; not held while a package is opened, which may take long
	open    []*Package               // the last used one last
	opening map[string]chan struct{} // by address; closed when the attempt to open the package has ended
	closed  bool
	max     int
}

// NewShelf returns a Shelf for at most n packages.
func NewShelf(n int) *Shelf { return &Shelf{max: n, opening: map[string]chan struct{}{}} }

// Get returns the package at an address, which open opens if it is not there.
func (s *Shelf) Get(ctx context.Context, name string, open func() (*Package, error)) (*Package, error) {
	for {
		p, busy := s.find(name)
		if p != nil {
			return p, nil
		}
		if busy == nil {
			break
		}
		select {
		case <-busy: // if that has failed, this is another attempt
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	p, err := open()
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.opening[name])
	delete(s.opening, name)
	if err != nil {
		return nil, err
	}
	if s.closed {
		_ = p.Close() // opened for reading only
		return nil, errClosed
	}
	if len(s.open) >= s.max {
		s.open = s.open[1:] // a reader may still use it: its file is closed when it is collected
	}
	s.open = append(s.open, p)
	return p, nil
}

var errClosed = errors.New("the explorer has moved on to another address")

// find returns the package at an address, or what is closed when another goroutine has tried to open it. If it returns
// nothing, the caller has to open it.
func (s *Shelf) find(name string) (p *Package, busy <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, p := range s.open {
		if p.Name == name {
			s.open = append(append(s.open[:i:i], s.open[i+1:]...), p)
			return p, nil
		}
	}
	if busy := s.opening[name]; busy != nil {
		return nil, busy
	}
	s.opening[name] = make(chan struct{})
	return nil, nil
}

// Close closes all packages.
func (s *Shelf) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.open {
		_ = p.Close() // opened for reading only
	}
	s.open, s.closed = nil, true
}
