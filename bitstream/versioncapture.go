package bitstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"lockstep/catalog"
	"lockstep/memento"
	"lockstep/resourcesync"
	"lockstep/vault"
)

var (
	errUnread = errors.New("cannot be read")      // a representation, for a reason that may be temporary
	errKeep   = errors.New("keep prior versions") // the vault or the index fails: nothing may be applied
	errStage  = errors.New("keep prior version")  // the vault does not accept one
)

// A versions is the state of a batch about the versions of its resources.
type versions struct {
	last   map[string]memento.Version // the newest of each URI, according to the index
	behind bool                       // the index could not be brought up to date
	staged []*vault.Staged            // to be committed
	rows   []memento.Version          // rows for the index, of versions that are not part of a change
	size   int64                      // newly staged bytes
	count  int64                      // versions captured
}

// lookUp reads the newest versions of the resources of a batch.
func (b *batch) lookUp(ctx context.Context) (err error) {
	var uris []string
	for i := range b.updates {
		if !b.updates[i].Deleted {
			uris = append(uris, b.updates[i].URI)
		}
	}
	b.versions.behind = b.settle(ctx) != nil // a deletion may be missing
	b.versions.last, err = b.lastOf(ctx, uris)
	return err
}

// lastOf returns the newest version of each URI that has one.
func (r *recorder) lastOf(ctx context.Context, uris []string) (map[string]memento.Version, error) {
	last := make(map[string]memento.Version)
	if len(uris) == 0 {
		return last, nil
	}
	vs, err := r.keeper.opts.Index.Last(ctx, r.set, uris)
	if err != nil {
		return nil, fmt.Errorf("%w: read the index: %w", errKeep, err)
	}
	for i := range vs {
		if !vs[i].IsZero() {
			last[uris[i]] = vs[i]
		}
	}
	return last, nil
}

// version stores the version that u brings, for a resource whose current record
// is now, or nil, and adds its link to u. h is the part already read, if any.
func (w *worker) version(ctx context.Context, u *catalog.Update, now *catalog.Record, h held) error {
	var was digest
	if now != nil {
		was, _ = digestOf(now.Hashes)
	}
	same := now != nil && catalog.SameContent(now, &u.Record)
	h, err := w.takeVersion(ctx, u, h, was)
	if err != nil {
		return err
	}
	switch {
	case !h.agrees(&u.Record):
		u.Token = ""
		fallthrough
	case !same: // otherwise the added properties would make it a change
		u.Length, u.Hashes = h.size, h.hashes
	}
	same = now != nil && catalog.SameContent(now, &u.Record)
	w.batch.mu.Lock()
	defer w.batch.mu.Unlock()
	at, again := w.datetime(u, now, h.sum, same)
	u.Links = append(u.Links[:len(u.Links):len(u.Links)], w.opts.Versions.link(&u.Record, h, at))
	if same && !again { // no change will add it to the index
		w.batch.versions.rows = append(w.batch.versions.rows, memento.Version{
			URI: u.URI, At: at, Digest: h.sum, Length: h.size, Type: u.Type, Encoding: u.Encoding, Lastmod: u.Lastmod,
			Event: now.EventTime, Seq: int64(now.Seq),
		})
	}
	w.batch.versions.count++
	return nil
}

// datetime returns the datetime of the version u brings. again means that the
// index has it: the content is unchanged, and was captured before (ME-MM-02).
func (w *worker) datetime(u *catalog.Update, now *catalog.Record, sum digest, same bool) (at time.Time, again bool) {
	last, known := w.batch.versions.last[u.URI]
	if same && known && !last.Gone && digest(last.Digest) == sum && last.Seq == int64(now.Seq) {
		return last.At, true
	}
	before := last.At
	if now != nil {
		if k, ours := w.opts.Versions.linked(now); ours && k.After(before) {
			before = k
		}
	}
	lastmod := u.Lastmod
	if w.batch.versions.behind {
		lastmod = time.Time{}
	}
	return versionTime(lastmod, before, w.opts.Versions.Now()), false
}

// takeVersion stages the representation that u describes, or the one that has
// replaced it. was is the previous version.
func (w *worker) takeVersion(ctx context.Context, u *catalog.Update, h held, was digest) (held, error) {
	if h.hashes != nil {
		if done, err := w.stageHeld(ctx, h, was); done || err != nil {
			return h, err
		}
	}
	var x expected
	x.sum, x.known = digestOf(u.Hashes)
	if x.stated = x.known; x.stated {
		size, ok, err := w.keeper.opts.Vault.Has(ctx, vault.Digest(x.sum))
		if err != nil {
			return h, fmt.Errorf("%w: %w", errKeep, err)
		}
		if ok && (u.Length < 0 || size == u.Length) {
			return held{sum: x.sum, hashes: u.Hashes, size: size}, nil
		}
	}
	for range maxReads {
		h, steady, err := w.readVersion(ctx, u, x, was)
		if err != nil || steady {
			return h, err
		}
		x = expected{sum: h.sum, known: true}
	}
	return h, errUnsteady
}

// stageHeld stages the bytes just read, unless they are no longer available.
func (w *worker) stageHeld(ctx context.Context, h held, was digest) (done bool, err error) {
	if _, ok, err := w.keeper.opts.Vault.Has(ctx, vault.Digest(h.sum)); ok || err != nil {
		return ok, err
	}
	var r io.Reader = bytes.NewReader(h.data)
	if h.data == nil {
		kept, err := w.keeper.open(ctx, h.sum, h.size)
		if err != nil {
			return false, ctx.Err() // it is read again from its origin
		}
		defer func() { _ = kept.Close() }() // only read from
		r = kept
	}
	s, err := w.stageVersion(ctx, r, was)
	if err != nil {
		return false, err
	}
	return true, w.batch.gather(ctx, s)
}

// readVersion reads the representation into the vault. It is steady, and staged,
// if it matches the update, or equals the previous read.
func (w *worker) readVersion(ctx context.Context, u *catalog.Update, x expected, was digest) (h held, steady bool, err error) {
	record := u.Record // the callee may keep it
	r, err := w.opts.Open(ctx, &record)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return h, false, fmt.Errorf("%w: %w", errVanished, err)
	case err != nil:
		return h, false, fmt.Errorf("%w: %w", errUnread, err)
	}
	defer func() { _ = r.Close() }() // only read from
	var algs []resourcesync.Algorithm
	for i := 0; i < len(u.Hashes) && !x.stated; i++ {
		if u.Hashes[i].Algorithm != resourcesync.SHA256 { // the vault computes it
			algs = append(algs, u.Hashes[i].Algorithm)
		}
	}
	hash := resourcesync.NewHasher(algs...)
	s, err := w.stageVersion(ctx, io.TeeReader(r, hash), was)
	if err != nil {
		return h, false, err
	}
	sum := s.Digest()
	h = held{sum: digest(sum), size: s.Size()}
	h.hashes = append(hash.Sum(), resourcesync.Hash{Algorithm: resourcesync.SHA256, Digest: string(sum[:])})
	if steady = x.known && h.sum == x.sum || !x.stated && h.agrees(&u.Record); !steady {
		return h, false, s.Close()
	}
	if x.stated {
		h.hashes = u.Hashes // not all of them were computed again
	}
	return h, true, w.batch.gather(ctx, s)
}

// stageVersion stages the bytes of r. It distinguishes an error of r from one of
// the vault.
func (w *worker) stageVersion(ctx context.Context, r io.Reader, was digest) (*vault.Staged, error) {
	var like []vault.Digest
	if was != (digest{}) {
		like = append(like, vault.Digest(was))
	}
	e := &erringReader{r: r}
	s, err := w.keeper.opts.Vault.Stage(ctx, e, like...)
	switch {
	case err == nil:
		return s, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(e.err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: %w", errVanished, e.err)
	case e.err != nil:
		return nil, fmt.Errorf("%w: %w", errUnread, e.err)
	}
	return nil, fmt.Errorf("%w: %w", errStage, err)
}

// An erringReader remembers the error of its reader.
type erringReader struct {
	r   io.Reader
	err error // except io.EOF
}

func (e *erringReader) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		e.err = err
	}
	return n, err
}

// gather adds a staged version, and commits the collected ones when there are
// enough.
func (b *batch) gather(ctx context.Context, s *vault.Staged) error {
	b.mu.Lock()
	b.versions.staged = append(b.versions.staged, s)
	b.versions.size += s.Size()
	var full []*vault.Staged
	if len(b.versions.staged) >= commitEach {
		full, b.versions.staged = b.versions.staged, nil
	}
	b.mu.Unlock()
	return b.commitVersions(ctx, full)
}

// commitVersions makes versions durable. Before that nothing may name them.
func (b *batch) commitVersions(ctx context.Context, staged []*vault.Staged) error {
	if len(staged) == 0 {
		return nil
	}
	defer closeAll(staged) // no effect on committed ones
	if err := b.keeper.opts.Vault.Commit(ctx, staged...); err != nil {
		return fmt.Errorf("%w: %w", errKeep, err)
	}
	return nil
}

func closeAll(staged []*vault.Staged) {
	for _, s := range staged {
		_ = s.Close() // it is discarded
	}
}

// keepRows adds versions to the index that are not part of a change: those of
// unchanged resources. It runs before their records name them, so that records
// never name a version that is not in the index; it may be repeated, because the
// same version gets the same datetime.
func (b *batch) keepRows(ctx context.Context) error {
	if len(b.versions.rows) == 0 {
		return nil
	}
	if err := b.keeper.opts.Index.Append(ctx, b.set, 0, b.versions.rows); err != nil {
		return fmt.Errorf("%w: write the index: %w", errKeep, err)
	}
	return nil
}

// notBefore returns the time that sorts after t in the index.
func notBefore(t, before time.Time) time.Time {
	if t = t.UTC().Truncate(microsecond); t.After(before) {
		return t
	}
	return before.Add(microsecond)
}
