package destination

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/dump"
	"lockstep/internal/fetch"
	"lockstep/internal/unpack"
)

// A memberReader reads single members of packages, for the workers that carry
// out one resource at a time: patches, and versions where another method failed.
// It keeps a few packages open, with their directories. It is safe for
// concurrent use.
type memberReader struct {
	ctx      context.Context // of the packages: they outlive a read
	opener   *dump.Opener
	packages *packageTable

	mu     sync.Mutex // guards what follows
	open   map[int]*openPackage
	failed map[int]error // packages that cannot be used in this run
	reads  int64         // so far
}

// An openPackage is a package that is open, or being opened.
type openPackage struct {
	number int
	ready  chan struct{} // closed when what follows is set
	file   dump.File
	dir    *unpack.Directory
	err    error

	users int        // guarded by the memberReader, as is read
	read  int64      // the number of the last read
	mu    sync.Mutex // guards searches in dir
}

const (
	// keptOpen is how many packages are kept open, and keptMembers how many
	// members their directories may have together: each takes some 200 bytes.
	keptOpen    = 16
	keptMembers = 100_000

	// smallPackage is up to which length a package is read whole for one member,
	// from a server that sends no parts of it, if there is another method.
	smallPackage = 4 << 20
)

func newMemberReader(ctx context.Context, k *dump.Opener, t *packageTable) *memberReader {
	return &memberReader{ctx: ctx, opener: k, packages: t, open: map[int]*openPackage{}, failed: map[int]error{}}
}

// with hands the content of a member to use, as far as it is what a describes by
// its length. With insist, the package is read whole if there is no other way.
func (r *memberReader) with(ctx context.Context, at desired.Member, a *action, insist bool, use func(content io.Reader) error) error {
	for try := 0; ; try++ {
		p, err := r.acquire(ctx, at.Package, insist)
		if err != nil {
			return err
		}
		err = p.use(ctx, at.Path, a, use)
		r.release(p, errors.Is(err, dump.ErrChanged))
		if !errors.Is(err, dump.ErrChanged) || try == dump.MaxReopen {
			return err
		}
	}
}

func (p *openPackage) use(ctx context.Context, path string, a *action, use func(content io.Reader) error) error {
	p.mu.Lock()
	m, err := findMember(p.dir, a, path)
	p.mu.Unlock()
	if err != nil {
		return err
	}
	packed := p.file.Section(ctx, m.Offset, m.Offset+m.Extent())
	defer packed.Close() // only read
	content, err := m.Open(packed)
	if err == nil {
		defer content.Close() // only read
		err = use(content)
	}
	if err != nil {
		return dump.Cause(err)
	}
	return nil
}

// acquire returns an open package, which has to be released.
func (r *memberReader) acquire(ctx context.Context, n int, insist bool) (*openPackage, error) {
	r.mu.Lock()
	if err := r.failed[n]; err != nil && !(insist && errors.Is(err, dump.ErrNotWorth)) {
		r.mu.Unlock()
		return nil, err
	}
	p, ok := r.open[n]
	if !ok {
		p = &openPackage{number: n, ready: make(chan struct{})}
		r.open[n] = p
	}
	r.reads++
	p.users, p.read = p.users+1, r.reads
	r.mu.Unlock()
	if !ok {
		if p.err = r.begin(p, insist); p.err != nil {
			r.forget(p)
		}
		close(p.ready)
	}
	select {
	case <-p.ready:
	case <-ctx.Done():
		r.release(p, false)
		return nil, context.Cause(ctx)
	}
	if p.err != nil {
		r.release(p, false)
		return nil, p.err
	}
	return p, nil
}

// forget takes a package that could not be opened out of those that are open,
// and notes why.
func (r *memberReader) forget(p *openPackage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, p.number)
	if r.ctx.Err() == nil {
		r.failed[p.number] = p.err
	}
}

// begin opens a package and reads its directory.
func (r *memberReader) begin(p *openPackage, insist bool) error {
	ref, ok := r.packages.get(p.number)
	if !ok || ref.refused != "" {
		return fmt.Errorf("refuse package %s: %s", fetch.Printable(ref.uri), ref.refused)
	}
	src := ref.source()
	src.Shelf = &r.packages.shelf
	var worth func(size int64) bool
	if !insist {
		worth = func(size int64) bool { return size >= 0 && size <= smallPackage }
	}
	err := error(dump.ErrNoRanges)
	for try := 0; try < dump.MaxReopen && dump.MayReopen(err); try++ {
		if p.file, _, err = r.opener.Open(r.ctx, &src, try > 0, worth); err == nil {
			err = r.opener.WithDirectory(r.ctx, p.file, func(dir *unpack.Directory, large bool) error {
				if p.dir = dir; large {
					return fmt.Errorf("package %s has too many members", fetch.Printable(ref.uri))
				}
				return nil
			})
		}
		if err != nil && p.file != nil {
			_ = p.file.Close() // only read
			p.file = nil
		}
	}
	return err
}

// release gives a package back; one that is of no use any more is closed once
// it has no readers.
func (r *memberReader) release(p *openPackage, drop bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if drop && r.open[p.number] == p { // it is another one now
		delete(r.open, p.number)
	}
	if p.users--; p.users == 0 && r.open[p.number] != p {
		r.close(p)
	}
	r.evict()
}

// evict closes packages that were not read for the longest time, until there are
// few enough.
func (r *memberReader) evict() {
	for {
		var oldest *openPackage
		members := 0
		for _, p := range r.open {
			if p.users > 0 {
				continue // it may still be opening
			}
			members += len(p.dir.Members)
			if oldest == nil || p.read < oldest.read {
				oldest = p
			}
		}
		if oldest == nil || len(r.open) <= keptOpen && members <= keptMembers {
			return
		}
		delete(r.open, oldest.number)
		r.close(oldest)
	}
}

// close closes a package; one that was fetched whole is kept for other readers.
func (r *memberReader) close(p *openPackage) {
	ref, _ := r.packages.get(p.number)
	if p.err == nil && p.file != nil {
		r.packages.shelf.Keep(ref.uri, p.file)
	} else if p.file != nil {
		_ = p.file.Close() // only read
	}
	p.file = nil
}

// stop closes all packages. None may be in use.
func (r *memberReader) stop() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for n, p := range r.open {
		delete(r.open, n)
		r.close(p)
	}
}
