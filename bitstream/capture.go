package bitstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/internal/chunkdelta"
	"lockstep/resourcesync"
)

// maxReads is how often a representation is read if it differs from its
// description: once or twice to determine its hash, once to store it, and one
// spare attempt.
const maxReads = 4

// smallBytes is the size up to which a representation is read into memory, and
// therefore only once.
const smallBytes = 128 << 10

var (
	errVanished = errors.New("is gone")
	errUnsteady = errors.New("kept changing while it was being read")
	errOversize = errors.New("is larger than was known, too large for patches")
)

// A worker stores representations, one after the other.
type worker struct {
	keeper *Keeper
	opts   *SetOptions
	batch  *batch // which collects the results
	buf    []byte // smallBytes and one more

	old *chunkdelta.Index // of the current representation, while the delta from it is made
}

// held is a representation that was read.
type held struct {
	sum    digest
	hashes resourcesync.Hashes // sum, and other computed hashes
	size   int64
	data   []byte // valid until the next read; nil if it is not in memory
	delta  []byte // from the index of the previous representation; nil: none
}

// follow stores the bytes of the updates of one resource, in order.
func (w *worker) follow(ctx context.Context, indices []int) error {
	now, err := w.batch.present(ctx, w.batch.updates[indices[0]].URI)
	if err != nil {
		return err
	}
	for _, i := range indices {
		u := &w.batch.updates[i]
		if u.Deleted {
			now = nil
			continue
		}
		err := w.keep(ctx, u, now)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errStage) && w.opts.Rescans:
			w.batch.wait(fmt.Errorf("%s: %w", u.URI, err))
			w.batch.withheld[i] = true
			continue
		case errors.Is(err, errKeep) || errors.Is(err, errStage):
			return fmt.Errorf("%s: %w", u.URI, err)
		case (errors.Is(err, errVanished) || errors.Is(err, errUnsteady) || errors.Is(err, errUnread)) && w.batch.leaveOut(u):
			w.batch.withheld[i] = true
			continue
		case errors.Is(err, errOversize): // it is not to be stored
		case err != nil:
			w.batch.problem(fmt.Errorf("%s: %w", u.URI, err))
		}
		now = &u.Record
	}
	return nil
}

// keep stores the bytes of an update to a resource whose current record is now,
// or nil.
func (w *worker) keep(ctx context.Context, u *catalog.Update, now *catalog.Record) error {
	keeps := w.opts.keepsVersions()
	if keeps {
		u.Links = withoutMementos(u.Links)
	}
	complete(&u.Record, now)
	same := now != nil && catalog.SameContent(now, &u.Record)
	var h held
	if !same && w.wanted(u.Length) {
		release, err := w.startDelta(ctx, u, now)
		if err != nil {
			return err
		}
		defer release()
		if h, err = w.keepOne(ctx, u, now); err != nil {
			if !keeps || ctx.Err() != nil || errors.Is(err, errVanished) || errors.Is(err, errUnsteady) {
				return err
			}
			if h = (held{}); !errors.Is(err, errOversize) {
				w.batch.problem(fmt.Errorf("%s: %w", u.URI, err))
			}
		}
	}
	if keeps && (!same || w.lacks(now)) {
		if err := w.version(ctx, u, now, h); err != nil {
			return err
		}
	}
	return w.linkDelta(ctx, u, h)
}

// lacks reports whether an unchanged resource still needs a version.
func (w *worker) lacks(now *catalog.Record) bool {
	_, ours := w.opts.Versions.linked(now)
	return !ours && now.Seq > 0 // 0: from this very batch, where it could not be stored
}

// keepOne stores the bytes of a change, and makes patches.
func (w *worker) keepOne(ctx context.Context, u *catalog.Update, now *catalog.Record) (held, error) {
	h, err := w.take(ctx, u)
	if err != nil {
		return h, err
	}
	if !h.agrees(&u.Record) {
		u.Token = ""
	}
	u.Length, u.Hashes = h.size, h.hashes
	if w.opts.Patches != nil && w.batch.begun && now != nil && w.old == nil {
		err = w.patch(ctx, u, now, h)
	}
	return h, err
}

// wanted reports whether a representation of that length, -1 if unknown, is to
// be stored.
func (w *worker) wanted(length int64) bool {
	return w.all() || w.opts.Patches != nil && length <= w.opts.Patches.MaxBytes
}

// all reports whether the bytes of all changes are stored separately from
// versions.
func (w *worker) all() bool { return w.batch.past && !w.opts.keepsVersions() }

// complete adds to u the properties that an earlier update of the same content
// got from the Keeper: the intake may not know the length, or another hash.
func complete(u, now *catalog.Record) {
	if now == nil || u.Length >= 0 && now.Length != u.Length {
		return
	}
	common, differs := u.Hashes.Compare(now.Hashes)
	if differs != 0 || common < len(u.Hashes) || len(u.Hashes) == 0 && !u.Lastmod.Equal(now.Lastmod) {
		return
	}
	if len(now.Hashes) > len(u.Hashes) {
		u.Hashes = now.Hashes
	}
	u.Length = now.Length
}

// take stores the representation that u describes, or the one that has replaced
// it.
func (w *worker) take(ctx context.Context, u *catalog.Update) (h held, err error) {
	x := expected{size: u.Length}
	x.sum, x.known = digestOf(u.Hashes)
	if x.stated = x.known; x.stated {
		if size, ok, err := w.stored(ctx, x); ok || err != nil {
			return held{sum: x.sum, hashes: u.Hashes, size: size}, err
		}
	}
	for range maxReads {
		h, steady, err := w.read(ctx, u, x)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return h, fmt.Errorf("%w: %w", errVanished, err)
		case err != nil:
			return h, err
		case steady:
			return h, nil
		}
		x = expected{sum: h.sum, size: h.size, known: true}
	}
	return h, errUnsteady
}

// stored reports whether everything to be stored of a representation is stored
// already, and its size. It pins that.
func (w *worker) stored(ctx context.Context, x expected) (size int64, ok bool, err error) {
	if w.opts.Patches.isLarge(x.size) {
		if ok, err := w.indexed(ctx, x.sum); !ok || err != nil || !w.all() {
			return x.size, ok, err
		}
	}
	if err := w.batch.pin(ctx, x.sum); err != nil {
		return 0, false, err
	}
	info, err := w.keeper.store.Stat(ctx, x.sum.name())
	return info.Size, err == nil && (x.size < 0 || info.Size == x.size), nil
}

// expected is the expected result of a read.
type expected struct {
	sum    digest
	size   int64 // -1: unknown
	known  bool
	stated bool // from the update, otherwise from the last read
}

// read reads the representation. It is steady, and stored, if it matches the
// update, or equals the previous read.
func (w *worker) read(ctx context.Context, u *catalog.Update, x expected) (h held, steady bool, err error) {
	record := u.Record // the callee may keep it
	r, err := w.opts.Open(ctx, &record)
	if err != nil {
		return h, false, err
	}
	defer func() { _ = r.Close() }() // only read from
	if w.buf == nil {
		w.buf = make([]byte, smallBytes+1)
	}
	n, err := readFull(ctx, r, w.buf)
	if err != nil && !errors.Is(err, io.EOF) {
		return h, false, err
	}
	hash := hasher(u.Hashes, x)
	if err == nil {
		rest := io.MultiReader(bytes.NewReader(w.buf[:n]), r)
		h, steady, err = w.readLarge(ctx, rest, hash, x)
	} else {
		_, _ = hash.Write(w.buf[:n]) // never fails
		h, err = finish(hash), nil
		h.data = w.buf[:n]
		if steady = x.known && h.sum == x.sum || !x.stated && h.agrees(&u.Record); steady {
			err = w.keepBytes(ctx, h)
		}
	}
	if steady && x.stated {
		h.hashes = u.Hashes // not all of them were computed again
	}
	return h, steady, err
}

// readLarge reads a representation that does not fit the buffer. If its hash is
// known, it is stored while it is read, or its index.
func (w *worker) readLarge(ctx context.Context, r io.Reader, hash *resourcesync.Hasher, x expected) (h held, steady bool, err error) {
	if !w.all() {
		r = io.LimitReader(r, w.opts.Patches.MaxBytes+1)
	}
	var out, index blob.Writer
	defer func() {
		for _, b := range []blob.Writer{out, index} {
			if b != nil && !steady {
				_ = b.Close() // it is discarded
			}
		}
	}()
	to := io.Writer(hash)
	if x.known && (w.all() || x.size >= 0 && x.size <= w.opts.Patches.WholeBytes) {
		if out, err = w.batch.create(ctx, x.sum); err != nil {
			return h, false, err
		}
		to = io.MultiWriter(out, hash)
	}
	var scan *chunkdelta.Scanner
	if x.known && w.opts.Patches.isLarge(x.size) {
		if index, err = w.batch.create(ctx, indexOf(x.sum)); err != nil {
			return h, false, err
		}
		scan = chunkdelta.NewScanner(index, w.old)
		err = scan.Scan(withContext(ctx, io.TeeReader(r, to)))
	}
	if err == nil || errors.Is(err, chunkdelta.ErrTooLarge) {
		err = copyAll(ctx, to, r) // the rest
	}
	if err != nil {
		return h, false, err
	}
	h = finish(hash)
	if !w.all() && h.size > w.opts.Patches.MaxBytes {
		return h, false, errOversize
	}
	if !x.known || h.sum != x.sum || out == nil && index == nil {
		return h, false, nil
	}
	if scan != nil {
		if err := scan.EndIndex(h.sum); err != nil {
			return h, false, err
		}
		if h.delta, err = scan.Delta(); err != nil {
			return h, false, err
		}
	}
	w.batch.store(ctx, out, index)
	return h, true, nil
}

// create begins the blob that is stored under d, which it pins.
func (b *batch) create(ctx context.Context, d digest) (blob.Writer, error) {
	if err := b.pin(ctx, d); err != nil {
		return nil, err
	}
	return b.keeper.store.Create(ctx, d.name())
}

// store stores finished blobs other than nil: at once, if they may be read soon.
func (b *batch) store(ctx context.Context, ws ...blob.Writer) {
	ws = slices.DeleteFunc(ws, func(w blob.Writer) bool { return w == nil })
	if b.opts.Patches != nil {
		b.keeper.staged.Add(int64(len(ws)))
		b.commit(ctx, ws)
		return
	}
	for _, w := range ws {
		b.stage(ctx, w)
	}
}

// keepBytes stores a representation that is in memory.
func (w *worker) keepBytes(ctx context.Context, h held) error {
	if err := w.batch.pin(ctx, h.sum); err != nil {
		return err
	}
	name := h.sum.name()
	if info, err := w.keeper.store.Stat(ctx, name); err == nil && info.Size == h.size {
		return nil
	}
	out, err := w.keeper.store.Create(ctx, name)
	if err != nil {
		return err
	}
	if _, err := out.Write(h.data); err != nil {
		_ = out.Close() // it is discarded
		return err
	}
	w.batch.stage(ctx, out)
	return nil
}

// hasher computes the hashes of an update and SHA-256. If the update states a
// SHA-256, only that one counts.
func hasher(hs resourcesync.Hashes, x expected) *resourcesync.Hasher {
	algs := []resourcesync.Algorithm{resourcesync.SHA256}
	for i := 0; i < len(hs) && !x.stated; i++ {
		algs = append(algs, hs[i].Algorithm)
	}
	return resourcesync.NewHasher(algs...)
}

func finish(hash *resourcesync.Hasher) held {
	h := held{hashes: hash.Sum(), size: hash.Size()}
	h.sum, _ = digestOf(h.hashes)
	return h
}

// agrees reports whether h matches r, as far as r describes it.
func (h *held) agrees(r *catalog.Record) bool {
	_, differs := h.hashes.Compare(r.Hashes)
	return differs == 0 && (r.Length < 0 || r.Length == h.size)
}

// readFull fills buf; io.EOF means that everything was read.
func readFull(ctx context.Context, r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		if err = ctx.Err(); err == nil {
			var m int
			m, err = r.Read(buf[n:])
			n += m
		}
	}
	if n == len(buf) {
		err = nil
	}
	return n, err
}

// copyAll copies r to w, until ctx ends.
func copyAll(ctx context.Context, w io.Writer, r io.Reader) error {
	buf := make([]byte, smallBytes)
	for {
		n, err := readFull(ctx, r, buf)
		if _, werr := w.Write(buf[:n]); werr != nil {
			return werr
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
