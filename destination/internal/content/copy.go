package content

import (
	"context"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"lockstep/resourcesync"
)

// How content is copied. Most of it is small, and hundreds of transfers may
// have a buffer at the same time; content that turns out to be large is copied
// with larger buffers, and hashed concurrently.
const (
	smallBuffer = 16 << 10
	plainBuffer = 64 << 10
	plainAfter  = 32 << 10 // bytes of a content that came

	// Large content is hashed by goroutines of their own, one for each algorithm,
	// while the next slabs are read and written. Few contents at a time are:
	// beyond the number of processors that gains nothing.
	slabBuffer = 256 << 10
	slabLeast  = 64 << 10 // handed on at once
	slabCount  = 6
	slabAfter  = 1 << 20
)

var (
	smallBuffers = sync.Pool{New: func() any { return new([smallBuffer]byte) }}
	plainBuffers = sync.Pool{New: func() any { return new([plainBuffer]byte) }}

	// lines are the places for large contents.
	lines = make(chan struct{}, runtime.NumCPU())
)

// Copy copies r to w and h, and returns how many bytes came. w may be
// nil. Errors of w are localErrors.
func Copy(w io.Writer, h *resourcesync.Hasher, r io.Reader) (int64, error) {
	n, err := copySmall(w, h, r)
	if err != nil {
		return n, ended(err)
	}
	select {
	case lines <- struct{}{}:
		defer func() { <-lines }()
		k, err := copyLarge(w, h, r)
		return n + k, ended(err)
	default:
	}
	buf := plainBuffers.Get().(*[plainBuffer]byte)
	defer plainBuffers.Put(buf)
	k, err := copyUntil(w, h, r, buf[:], -1)
	return n + k, ended(err)
}

// A Creator creates the file of a content, all of whose bytes are at hand if it is whole.
type Creator interface {
	Create(ctx context.Context, whole bool) (io.Writer, error)
}

// CopyNew is Copy to a file that is created when a small content, or the beginning of a
// larger one, has come.
func CopyNew(ctx context.Context, file Creator, h *resourcesync.Hasher, r io.Reader) (int64, error) {
	w, n, err := begin(ctx, file, h, r)
	if err != nil {
		return n, ended(err)
	}
	k, err := Copy(w, h, r)
	return n + k, err
}

// begin copies what fits into a small buffer to a new file. At the end of r its error is
// io.EOF.
func begin(ctx context.Context, file Creator, h *resourcesync.Hasher, r io.Reader) (w io.Writer, n int64, err error) {
	small := smallBuffers.Get().(*[smallBuffer]byte)
	defer smallBuffers.Put(small)
	filled := 0
	for err == nil && filled < len(small) {
		var k int
		k, err = r.Read(small[filled:])
		filled += k
	}
	if filled == 0 && err != io.EOF {
		return nil, 0, err
	}
	w, cerr := file.Create(ctx, err == io.EOF)
	if cerr != nil {
		return nil, 0, cerr
	}
	if werr := write(w, small[:filled]); werr != nil {
		return nil, int64(filled), werr
	}
	_, _ = h.Write(small[:filled]) // never fails
	return w, int64(filled), err
}

func ended(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// A readerFunc is a reader that consists of its Read method.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// WithContext returns a reader of r that fails once ctx has ended.
func WithContext(ctx context.Context, r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return r.Read(p)
	})
}

// copySmall copies until r ends, or turns out to be large.
func copySmall(w io.Writer, h *resourcesync.Hasher, r io.Reader) (int64, error) {
	small := smallBuffers.Get().(*[smallBuffer]byte)
	n, err := copyUntil(w, h, r, small[:], plainAfter)
	smallBuffers.Put(small)
	if err != nil {
		return n, err
	}
	plain := plainBuffers.Get().(*[plainBuffer]byte)
	defer plainBuffers.Put(plain)
	k, err := copyUntil(w, h, r, plain[:], slabAfter)
	return n + k, err
}

// copyUntil copies most bytes or a little more, all if most is negative. At the
// end of r its error is io.EOF.
func copyUntil(w io.Writer, h *resourcesync.Hasher, r io.Reader, buf []byte, most int64) (n int64, err error) {
	for err == nil && (most < 0 || n < most) {
		var k int
		if k, err = r.Read(buf); k > 0 {
			n += int64(k)
			if werr := write(w, buf[:k]); werr != nil {
				return n, werr
			}
			_, _ = h.Write(buf[:k]) // never fails
		}
	}
	return n, err
}

func write(w io.Writer, p []byte) error {
	if w == nil {
		return nil
	}
	if _, err := w.Write(p); err != nil {
		return &LocalError{Err: err}
	}
	return nil
}

// A slab is a part of a large content on its way through the hashers.
type slab struct {
	buf  [slabBuffer]byte
	n    int
	left atomic.Int32 // hashers that are not done with it
}

var slabs = sync.Pool{New: func() any { return new(slab) }}

// copyLarge copies the rest of r, hashing concurrently. At the end of r its
// error is io.EOF.
func copyLarge(w io.Writer, h *resourcesync.Hasher, r io.Reader) (n int64, err error) {
	hashers := h.Split()
	free := make(chan *slab, slabCount)
	queues := make([]chan *slab, len(hashers))
	var work sync.WaitGroup
	for i, hasher := range hashers {
		queue := make(chan *slab, slabCount)
		queues[i] = queue
		work.Go(func() {
			for p := range queue {
				_, _ = hasher.Write(p.buf[:p.n]) // never fails
				if p.left.Add(-1) == 0 {
					free <- p
				}
			}
		})
	}
	made := 0
	for err == nil {
		var p *slab
		select {
		case p = <-free:
		default:
			if made < slabCount {
				p = slabs.Get().(*slab)
				made++
			} else {
				p = <-free
			}
		}
		for p.n = 0; err == nil && p.n < slabLeast; {
			var k int
			k, err = r.Read(p.buf[p.n:])
			p.n += k
		}
		n += int64(p.n)
		werr := write(w, p.buf[:p.n])
		p.left.Store(int32(len(hashers)))
		for _, queue := range queues {
			queue <- p
		}
		if werr != nil {
			err = werr
		}
	}
	for _, queue := range queues {
		close(queue)
	}
	work.Wait()
	for range made {
		slabs.Put(<-free)
	}
	return n, err
}
