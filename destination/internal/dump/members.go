package dump

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"lockstep/internal/fetch"
	"lockstep/internal/unpack"
)

// Members reads single members of packages, for workers that process one resource
// at a time: patches, and versions for which another method failed. It keeps a few
// packages open, with their directories. It is safe for concurrent use.
type Members struct {
	opener   *Opener
	packages *Table

	mu     sync.Mutex // guards the fields below
	open   map[int]*openPackage
	failed map[int]error // packages that cannot be used in this run
	reads  int64         // number of reads so far
}

// An openPackage is a package that is open or being opened.
type openPackage struct {
	number int
	ready  chan struct{} // closed when the fields below are set
	file   File
	dir    *unpack.Directory
	err    error

	users int        // readers; guarded by the mutex of the Members, like read
	read  int64      // sequence number of the last read
	mu    sync.Mutex // guards searches in dir
}

const (
	// keptOpen is the number of packages kept open, and keptMembers the total
	// number of members in their directories, each of which takes about 200 bytes.
	keptOpen    = 16
	keptMembers = 100_000

	// smallPackage is the length, in bytes, up to which a whole package is fetched
	// for one member from a server without ranges if there is another method.
	smallPackage = 4 << 20

	// A large member without a stated length is not unpacked if it grows by more
	// than this factor (RS-ZIP-06).
	maxGrowth   = 200
	largeGrowth = 16 << 20
)

// NewMembers returns a reader of members of the packages in t.
func NewMembers(k *Opener, t *Table) *Members {
	return &Members{opener: k, packages: t, open: map[int]*openPackage{}, failed: map[int]error{}}
}

// Read passes the content of the member at path in package n to use, unless the
// member's length shows that it is not content of the stated length (-1: not
// stated). With insist, the whole package is read if there is no other method.
func (r *Members) Read(ctx context.Context, n int, path string, length int64, insist bool, use func(content io.Reader) error) error {
	for try := 0; ; try++ {
		p, err := r.acquire(ctx, n, insist)
		if err != nil {
			return err
		}
		err = p.use(ctx, path, length, use)
		r.release(p, errors.Is(err, ErrChanged))
		if !errors.Is(err, ErrChanged) || try == MaxReopen {
			return err
		}
	}
}

func (p *openPackage) use(ctx context.Context, path string, length int64, use func(content io.Reader) error) error {
	p.mu.Lock()
	m, err := FindMember(p.dir, path, length)
	p.mu.Unlock()
	if err != nil {
		return err
	}
	packed := p.file.Section(ctx, m.Offset, m.Offset+m.Extent())
	defer packed.Close() // opened for reading only
	content, err := m.Open(packed)
	if err == nil {
		defer content.Close() // opened for reading only
		err = use(content)
	}
	if err != nil {
		return Cause(err)
	}
	return nil
}

// acquire returns an open package, which the caller must release.
func (r *Members) acquire(ctx context.Context, n int, insist bool) (*openPackage, error) {
	r.mu.Lock()
	if err := r.failed[n]; err != nil && !(insist && errors.Is(err, ErrNotWorth)) {
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
		if p.err = r.begin(ctx, p, insist); p.err != nil {
			r.forget(ctx, p)
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

// forget removes a package that could not be opened from the open packages, and
// records the reason.
func (r *Members) forget(ctx context.Context, p *openPackage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, p.number)
	if ctx.Err() == nil {
		r.failed[p.number] = p.err
	}
}

// begin opens a package and reads its directory.
func (r *Members) begin(ctx context.Context, p *openPackage, insist bool) error {
	ref, ok := r.packages.Get(p.number)
	if !ok || ref.Refused != "" {
		return fmt.Errorf("refuse package %s: %s", fetch.Printable(ref.URI), ref.Refused)
	}
	src := ref.Package()
	src.Shelf = &r.packages.Shelf
	var worth func(size int64) bool
	if !insist {
		worth = func(size int64) bool { return size >= 0 && size <= smallPackage }
	}
	err := error(ErrNoRanges)
	for try := 0; try < MaxReopen && MayReopen(err); try++ {
		if p.file, _, err = r.opener.Open(ctx, &src, try > 0, worth); err == nil {
			err = r.opener.WithDirectory(ctx, p.file, func(dir *unpack.Directory, large bool) error {
				if p.dir = dir; large {
					return fmt.Errorf("package %s has too many members", fetch.Printable(ref.URI))
				}
				return nil
			})
		}
		if err != nil && p.file != nil {
			_ = p.file.Close() // opened for reading only
			p.file = nil
		}
	}
	return err
}

// release ends the use of a package; with drop the package is not used again and is
// closed once it has no readers.
func (r *Members) release(p *openPackage, drop bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if drop && r.open[p.number] == p { // otherwise it was replaced already
		delete(r.open, p.number)
	}
	if p.users--; p.users == 0 && r.open[p.number] != p {
		r.close(p)
	}
	r.evict()
}

// evict closes the least recently read packages until their number is within the
// limits.
func (r *Members) evict() {
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
func (r *Members) close(p *openPackage) {
	ref, _ := r.packages.Get(p.number)
	if p.err == nil && p.file != nil {
		r.packages.Shelf.Keep(ref.URI, p.file)
	} else if p.file != nil {
		_ = p.file.Close() // opened for reading only
	}
	p.file = nil
}

// Close closes all packages. None may be in use.
func (r *Members) Close() {
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

// FindMember returns the member at path, if it can be extracted. length is the
// stated length of its content; -1: not stated.
func FindMember(dir *unpack.Directory, path string, length int64) (*unpack.Member, error) {
	refuse := func(reason string) error {
		return fmt.Errorf("%s is not available: %s", fetch.Printable(Clip(path)), reason)
	}
	if path == "" {
		return nil, errors.New("its manifest gives no path")
	}
	m, ok := dir.Find(path)
	switch {
	case !ok:
		return nil, refuse("there is no such member") // RS-ZIP-08
	case m.Refused() != "":
		return nil, refuse(m.Refused())
	case length < 0 && m.Size > largeGrowth && m.Size/maxGrowth > m.Packed:
		return nil, refuse("it would unpack to a multiple of its length, which nothing states")
	case length >= 0 && m.Size > 2*length+largeGrowth:
		return nil, refuse(fmt.Sprintf("it has %d bytes, %d are stated", m.Size, length))
	}
	return m, nil
}
