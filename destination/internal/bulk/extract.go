package bulk

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"sync"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/dump"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/transfer"
	"lockstep/internal/unpack"
)

// extract reads the passages, several concurrently, and leaves in u.left the
// resources that could not be read. Small members are unpacked by other goroutines
// than those that read.
func (u *unpacking) extract(ctx context.Context, file dump.File, all []passage) error {
	work := make(chan loaded)
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), maxUnpackers) {
		workers.Go(func() {
			var buf []byte
			for l := range work {
				buf = u.unpackLot(ctx, l, buf)
			}
		})
	}
	todo := make(chan passage)
	var readers sync.WaitGroup
	var mu sync.Mutex // guards left and first
	var left []*plan.Action
	var first error
	for range min(maxStreams, len(all)) {
		readers.Go(func() {
			for s := range todo {
				u.streams <- struct{}{}
				rest, err := u.readPassage(ctx, file, s, work)
				<-u.streams
				if err != nil {
					mu.Lock()
					if left = append(left, rest...); first == nil || dump.MayReopen(err) {
						first = err
					}
					mu.Unlock()
				}
			}
		})
	}
	for _, s := range all {
		todo <- s
	}
	close(todo)
	readers.Wait()
	close(work)
	workers.Wait()
	u.left = left
	return first
}

// maxUnpackers is the number of goroutines that unpack, verify and write members of
// one package.
const maxUnpackers = 8

// lotBuffers contains buffers for lots.
var lotBuffers = sync.Pool{New: func() any { return new([lotBytes]byte) }}

// errHopeless reports a package whose members do not match its directory.
var errHopeless = errors.New("nothing in it is what it should be")

// hopeless reports whether reading the rest is pointless.
func (u *unpacking) hopeless() bool {
	const enough = 200
	if u.had.Load() {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.wrong >= enough
}

// loaded is a lot in memory.
type loaded struct {
	lot
	buf *[lotBytes]byte
}

// readPassage reads a passage. If reading fails, it returns the actions whose
// content was not read.
func (u *unpacking) readPassage(ctx context.Context, file dump.File, s passage, work chan<- loaded) (rest []*plan.Action, err error) {
	r := &counted{r: file.Section(ctx, s[0].from, s[len(s)-1].to), at: s[0].from}
	defer r.close()
	for i, c := range s {
		if u.hopeless() {
			return actionsOf(s[i:]), errHopeless
		}
		if err := r.skipTo(c.from); err != nil {
			return actionsOf(s[i:]), err
		}
		if c.to-c.from > lotBytes {
			if err := u.stream(ctx, c, r); err != nil {
				return actionsOf(s[i:]), err
			}
			continue
		}
		buf := lotBuffers.Get().(*[lotBytes]byte)
		if _, err := io.ReadFull(r, buf[:c.to-c.from]); err != nil {
			lotBuffers.Put(buf)
			return actionsOf(s[i:]), err
		}
		work <- loaded{c, buf}
	}
	return nil, nil
}

func actionsOf(lots []lot) []*plan.Action {
	var as []*plan.Action
	for _, c := range lots {
		for _, p := range c.pieces {
			as = append(as, p.actions...)
		}
	}
	return as
}

// counted is a reader that records its offset and the error that ended reading.
type counted struct {
	r   io.ReadCloser
	at  int64
	err error // never io.EOF
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.at += int64(n)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

func (c *counted) skipTo(at int64) error {
	_, err := io.CopyN(io.Discard, c, at-c.at)
	return err
}

func (c *counted) close() { _ = c.r.Close() } // everything useful was read

// stream unpacks a long piece while it is being read. The error is one of reading
// the package.
func (u *unpacking) stream(ctx context.Context, c lot, r *counted) error {
	m, a := c.pieces[0].member, c.pieces[0].actions[0]
	content, err := m.Open(io.LimitReader(r, c.to-c.from))
	if err == nil {
		u.take(ctx, a, content, func() bool { return r.err != nil })
		_ = content.Close() // opened for reading only
	} else if r.err == nil {
		u.amiss(err, a)
	}
	return r.err
}

// unpackLot unpacks a lot that is in memory. buf is for decompressed data; it is
// returned, perhaps larger.
func (u *unpacking) unpackLot(ctx context.Context, l loaded, buf []byte) []byte {
	defer lotBuffers.Put(l.buf)
	for _, p := range l.pieces {
		packed := l.buf[p.member.Offset-l.from:][:p.member.Extent()]
		for _, a := range p.actions {
			if ctx.Err() != nil {
				return buf
			}
			buf = u.unpackPiece(ctx, p.member, a, packed, buf)
		}
	}
	return buf
}

func (u *unpacking) unpackPiece(ctx context.Context, m *unpack.Member, a *plan.Action, packed, buf []byte) []byte {
	if m.Size > lotBytes { // only its compressed form is small
		content, err := m.Open(bytes.NewReader(packed))
		if err != nil {
			u.amiss(err, a)
			return buf
		}
		u.take(ctx, a, content, nil)
		_ = content.Close() // opened for reading only
		return buf
	}
	if buf == nil {
		buf = make([]byte, lotBytes)
	}
	data, err := m.Bytes(packed, buf)
	if err != nil {
		u.amiss(err, a)
		return buf
	}
	u.take(ctx, a, bytes.NewReader(data), nil)
	return buf
}

// take passes content to the fetcher. If it does not match its description, a is
// handed back; but if broken reports that only the transfer failed, a is tried
// again.
func (u *unpacking) take(ctx context.Context, a *plan.Action, r io.Reader, broken func() bool) {
	o := u.fetch.Take(ctx, a, r)
	var wrong *content.Error
	var member *unpack.MemberError
	switch {
	case o.Err == nil:
		o.By = transfer.ByPackage
		u.had.Store(true)
		u.done(o)
	case content.IsLocal(o.Err):
		u.done(o)
	case broken != nil && broken():
	case errors.As(o.Err, &wrong), errors.As(o.Err, &member):
		u.amiss(o.Err, a)
	default:
		u.done(o)
	}
}

// amiss hands back a resource whose content was read and does not match its
// description.
func (u *unpacking) amiss(err error, a *plan.Action) {
	u.mu.Lock()
	u.wrong++
	u.mu.Unlock()
	u.refuse(err, a)
}
