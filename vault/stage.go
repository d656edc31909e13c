package vault

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"sync"

	"lockstep/internal/chunks"
)

const (
	// maxLikes is how many contents are searched for reusable chunks.
	maxLikes = 8

	// maxSources is the maximum number of other blobs that a content uses: reading
	// it opens them all.
	maxSources = 256

	// spoolSize is how much of a blob is held in memory before it is written.
	spoolSize = 1 << 20
)

// Put stores the content of r durably and returns its digest and size. Existing
// data is not stored again. like are contents it may resemble, such as the
// previous version; it ignores missing ones.
func (v *Vault) Put(ctx context.Context, r io.Reader, like ...Digest) (Digest, int64, error) {
	s, err := v.Stage(ctx, r, like...)
	if err != nil {
		return Digest{}, 0, err
	}
	defer s.Close() // drops it, unless committed
	if err := v.Commit(ctx, s); err != nil {
		return Digest{}, 0, err
	}
	return s.Digest(), s.Size(), nil
}

// Stage writes the content of r, like Put, but leaves it to Commit to make it
// durable: committing many staged contents costs as much as one. Staged
// contents are of no use in like. Errors of r are returned unchanged.
func (v *Vault) Stage(ctx context.Context, r io.Reader, like ...Digest) (*Staged, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	seeker, again := r.(io.Seeker)
	var first int64
	if again {
		var err error
		first, err = seeker.Seek(0, io.SeekCurrent)
		again = err == nil // a pipe returns an error
	}
	s, err := v.stage(ctx, r, like)
	if _, damaged := errors.AsType[*DamagedError](err); damaged && again {
		// Then similar contents cannot be used.
		if _, err := seeker.Seek(first, io.SeekStart); err != nil {
			return nil, err
		}
		return v.stage(ctx, r, nil)
	}
	return s, err
}

func (v *Vault) stage(ctx context.Context, r io.Reader, like []Digest) (*Staged, error) {
	buf := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buf)
	st := stager{v: v, s: &Staged{v: v}, like: like, own: make(map[Digest]chunk)}
	st.spool = spool{store: v.store}
	st.from = chunkReader{v: v, t: &st.t}
	defer st.from.shutAll()
	err := st.take(ctx, chunks.NewReader(r, buf[:], classes))
	if err == nil {
		err = st.finish(ctx)
	}
	if err != nil {
		_ = st.spool.Close() // it is discarded
		_ = st.s.Close()     // likewise
		return nil, err
	}
	return st.s, nil
}

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// A stager makes one blob.
type stager struct {
	v     *Vault
	s     *Staged
	like  []Digest
	spool spool
	t     table
	own   map[Digest]chunk // chunks in the blob itself; not filled if there is only one
	known map[Digest]chunk // chunks in other blobs; nil until there is a second chunk
	from  chunkReader      // reads those
	sure  map[Digest]bool  // whether those that were read are intact
	got   []byte           // a chunk read from there
	put   []byte           // a chunk, compressed
}

// take reads and stores the content.
func (st *stager) take(ctx context.Context, c *chunks.Reader) error {
	var sum hash.Hash
	for {
		data, last, err := c.Next()
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		d := Digest(sha256.Sum256(data))
		st.s.size += int64(len(data))
		if last && sum == nil {
			st.s.digest = d
			return st.sole(ctx, data)
		}
		if sum == nil {
			sum = sha256.New()
			if err := st.learn(ctx); err != nil {
				return err
			}
		}
		sum.Write(data) // never fails
		if err := st.chunk(ctx, d, data); err != nil {
			return err
		}
		if last {
			st.s.digest = Digest(sum.Sum(nil))
			return nil
		}
	}
}

// sole handles the only chunk, which can only be in another blob with the
// content's own name.
func (st *stager) sole(ctx context.Context, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	return st.chunk(ctx, st.s.digest, data)
}

// learn reads which chunks the possibly similar contents have.
func (st *stager) learn(ctx context.Context) error {
	st.known = make(map[Digest]chunk)
	used := make(map[Digest]int64) // number of bytes that each other blob can provide
	for _, d := range st.like[:min(len(st.like), maxLikes)] {
		if err := st.v.settled(ctx, d); err != nil {
			return err
		}
		t, _, err := st.v.find(ctx, d, true)
		if err != nil {
			return err
		}
		st.s.pinned = append(st.s.pinned, d)
		if t == nil {
			continue
		}
		sources := append([]Digest{d}, t.sources...)
		for _, c := range t.chunks {
			holder := sources[c.source]
			if _, twice := st.known[c.digest]; twice || st.v.noted(holder) {
				continue
			}
			c.source = st.source(holder)
			st.known[c.digest] = c
			used[holder] += int64(c.size)
		}
	}
	st.narrow(used)
	return nil
}

// source returns the number of a source, as in [chunk].
func (st *stager) source(d Digest) int {
	i := slices.Index(st.t.sources, d)
	if i < 0 {
		i = len(st.t.sources)
		st.t.sources = append(st.t.sources, d)
	}
	return i + 1
}

// narrow removes the sources that provide the least, if there are too many.
func (st *stager) narrow(used map[Digest]int64) {
	if len(st.t.sources) <= maxSources {
		return
	}
	best := slices.Clone(st.t.sources)
	slices.SortStableFunc(best, func(a, b Digest) int { return cmp.Compare(used[b], used[a]) })
	keep := make(map[Digest]bool)
	for _, d := range best[:maxSources] {
		keep[d] = true
	}
	for d, c := range st.known {
		if !keep[st.t.sources[c.source-1]] {
			delete(st.known, d)
		}
	}
}

// chunk adds the next chunk of the content.
func (st *stager) chunk(ctx context.Context, d Digest, data []byte) error {
	if c, again := st.own[d]; again {
		return st.append(c)
	}
	if c, known := st.known[d]; known {
		same, err := st.same(ctx, &c, data)
		if err != nil {
			return err
		}
		if same {
			return st.append(c)
		}
	}
	c, err := st.keep(ctx, d, data)
	if err != nil {
		return err
	}
	return st.append(c)
}

// same reports whether a chunk in another blob exists and has these bytes. Each
// chunk is read only once.
func (st *stager) same(ctx context.Context, c *chunk, data []byte) (bool, error) {
	if st.v.opts.Trust || st.sure[c.digest] {
		return true, nil
	}
	st.got = slices.Grow(st.got[:0], len(data))[:len(data)]
	if err := st.from.load(ctx, c, st.got); err != nil || !bytes.Equal(st.got, data) {
		// It may be elsewhere, or damaged.
		st.from.d = st.from.holder(c.source) // named in errors
		err = st.from.fetch(ctx, c, st.got)
		if _, damaged := errors.AsType[*DamagedError](err); damaged {
			delete(st.known, c.digest)
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	if st.sure == nil {
		st.sure = make(map[Digest]bool)
	}
	st.sure[c.digest] = true
	return true, nil
}

func (st *stager) append(c chunk) error {
	if len(st.t.chunks) >= maxChunks {
		return fmt.Errorf("content of more than %d bytes: %w", st.s.size, errTooLarge)
	}
	st.t.chunks = append(st.t.chunks, c)
	return nil
}

// maxChunks limits a table to what can be read again: with less than 60 bytes
// for each chunk, in maxTable. At the average length that is more than 4 TB.
const maxChunks = (maxTable - 32*maxSources - 1024) / 60

var errTooLarge = errors.New("too large to be kept")

// keep writes a chunk into the blob.
func (st *stager) keep(ctx context.Context, d Digest, data []byte) (chunk, error) {
	c := chunk{digest: d, size: len(data)}
	if st.v.opts.Compress {
		put := deflate(st.put, data)
		if len(put) < len(data) {
			st.put = put
		}
		data = put
	}
	c.stored, c.off = len(data), int64(len(magic))+st.t.data
	st.t.data += int64(len(data))
	st.own[d] = c
	return c, st.spool.write(ctx, data)
}

// finish completes the blob, unless the vault has the content.
func (st *stager) finish(ctx context.Context) error {
	s := st.s
	t, something, err := st.v.find(ctx, s.digest, true)
	if err != nil {
		return err
	}
	s.pinned = append(s.pinned, s.digest)
	if t != nil {
		sound, err := st.sound(ctx)
		if err != nil {
			return err
		}
		if sound {
			return st.spool.Close() // once is enough
		}
		something = true
	}
	if something || slices.Contains(st.t.sources, s.digest) {
		// Others may use chunks of the existing blob: the new one must have them too.
		s.replace = true
		if err := st.complete(ctx); err != nil {
			return err
		}
	}
	st.t.size = s.size
	st.settle()
	s.w, err = st.spool.end(ctx, s.digest.name(), st.t.appendTo(nil, s.digest))
	return err
}

// sound reports whether the existing content is intact.
func (st *stager) sound(ctx context.Context) (bool, error) {
	if st.v.opts.Trust {
		return true, nil
	}
	err := st.v.Verify(ctx, st.s.digest)
	if _, damaged := errors.AsType[*DamagedError](err); damaged {
		return false, nil
	}
	return err == nil, err
}

// complete copies the chunks that are in other blobs.
func (st *stager) complete(ctx context.Context) error {
	st.from.d = st.s.digest
	for i, c := range st.t.chunks {
		if c.source == 0 {
			continue
		}
		own, again := st.own[c.digest]
		if !again {
			data := make([]byte, c.size)
			if err := st.from.fetch(ctx, &c, data); err != nil {
				return err
			}
			var err error
			if own, err = st.keep(ctx, c.digest, data); err != nil {
				return err
			}
		}
		st.t.chunks[i] = own
	}
	return nil
}

// settle numbers the used sources, and determines the kind of the blob.
func (st *stager) settle() {
	all := st.t.sources
	st.t.sources = nil
	numbers := make([]int, len(all)+1)
	for i := range st.t.chunks {
		c := &st.t.chunks[i]
		if c.source == 0 {
			continue
		}
		if numbers[c.source] == 0 {
			st.t.sources = append(st.t.sources, all[c.source-1])
			numbers[c.source] = len(st.t.sources)
		}
		c.source = numbers[c.source]
	}
	if st.t.kind = kindWhole; len(st.t.sources) > 0 {
		st.t.kind = kindShared
	}
}
