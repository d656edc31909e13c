package destination

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"

	"lockstep/destination/internal/content"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
	"lockstep/vault"
)

const (
	// captures is how many files are read at a time to be kept.
	captures = 4

	// likeFrom is the length from which a version is worth looking for one it
	// resembles.
	likeFrom = 64 << 10
)

// A capture is the result of keeping the content of a file that is about to be
// replaced or removed.
type capture struct {
	past    journal.Past
	staged  *vault.Staged
	warning string        // it could not be kept, for there is nothing left of it
	err     error         // it could not be kept: it must stay
	lost    *journal.Held // what the damaged file was; nil: it was not damaged, or this is unknown
}

// capture keeps the content of the files of hs: each staged content may hold a
// file open, so their number is limited.
func (k *keeper) capture(ctx context.Context, hs []journal.Held) []capture {
	got := make([]capture, 0, len(hs))
	for part := range slices.Chunk(hs, k.d.kept) {
		got = append(got, k.capturePart(ctx, part)...)
	}
	return got
}

func (k *keeper) capturePart(ctx context.Context, hs []journal.Held) []capture {
	got := make([]capture, len(hs))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(captures, len(hs)) {
		workers.Go(func() {
			for i := range next {
				got[i] = k.captureOne(ctx, &hs[i])
			}
		})
	}
	for i := range hs {
		next <- i
	}
	close(next)
	workers.Wait()
	var staged []*vault.Staged
	for i := range got {
		if s := got[i].staged; s != nil {
			staged = append(staged, s)
			defer s.Close()
		}
	}
	if len(staged) == 0 {
		return got
	}
	if err := k.d.vault.Commit(ctx, staged...); err != nil {
		for i := range got {
			if got[i].staged != nil {
				got[i].err = keepError(err)
			}
		}
	}
	return got
}

func keepError(err error) error {
	return &content.LocalError{Err: fmt.Errorf("keep the version before: %w", err)}
}

// captureOne stages the content of one file.
func (k *keeper) captureOne(ctx context.Context, h *journal.Held) capture {
	c := capture{past: pastOf(h.URI, h)}
	if len(h.Hashes) == 0 {
		if c.lost = k.lost(ctx, h.URI); c.lost != nil {
			c.warning = fmt.Sprintf("the version of %s that was here could not be kept: its file was damaged", fetch.Printable(h.URI))
		}
		return c
	}
	r, err := k.d.store.Open(ctx, h.Path)
	if err != nil {
		return k.uncaptured(ctx, c, err)
	}
	defer r.Close()
	algs := content.Algorithms(h.Hashes)
	sums := k.sums.Get(algs)
	defer k.sums.Put(algs, sums)
	src := &countedReader{r: content.WithContext(ctx, r), sums: sums}
	s, err := k.d.vault.Stage(ctx, src, k.like(ctx, h)...)
	if damaged, ok := errors.AsType[*vault.DamagedError](err); ok { // what it resembles is of no help, then
		k.d.log.WarnContext(ctx, "a version that was kept is damaged", slog.String("uri", h.URI), slog.Any("err", damaged))
		if _, err = r.Seek(0, io.SeekStart); err != nil {
			return k.uncaptured(ctx, c, err)
		}
		sums.Reset()
		src.n = 0
		s, err = k.d.vault.Stage(ctx, src)
	}
	switch {
	case src.err != nil:
		return k.uncaptured(ctx, c, src.err)
	case err != nil:
		c.err = keepError(err)
		return c
	case !sameContent(h, &journal.Held{Length: src.n, Hashes: sums.Sum()}):
		_ = s.Close() // not wanted
		return k.uncaptured(ctx, c, errors.New("its file is not what was written here"))
	}
	c.staged, c.past.Digest = s, s.Digest()
	if c.past.Hashes.Get(resourcesync.SHA256) == "" {
		d := s.Digest()
		c.past.Hashes = append(c.past.Hashes[:len(c.past.Hashes):len(c.past.Hashes)], resourcesync.Hash{Algorithm: resourcesync.SHA256, Digest: string(d[:])})
	}
	return c
}

// uncaptured records a file that cannot be read. Replacing a file that is
// damaged or gone loses nothing; a file that may be readable tomorrow must
// stay.
func (k *keeper) uncaptured(ctx context.Context, c capture, err error) capture {
	switch {
	case ctx.Err() != nil:
		c.err = ctx.Err()
	case isDown(err), isShortage(err):
		c.err = keepError(err)
	case k.has(ctx, &c.past):
	default:
		c.warning = fmt.Sprintf("the version of %s that was here could not be kept: %v", fetch.Printable(c.past.URI), err)
	}
	return c
}

// has reports whether the content was kept by a run that was killed before it
// had done what it kept it for.
func (k *keeper) has(ctx context.Context, p *journal.Past) bool {
	for o, err := range k.d.journal.Past(ctx, p.URI, p.URI+"\x00", k.AtSeq) {
		if err != nil {
			return false // it is reported as not kept
		}
		if o.Digest != (vault.Digest{}) && sameContent(&o.Held, &p.Held) {
			return true
		}
	}
	return false
}

// lost returns what a resource was before its file was found damaged in this
// run, unless its bytes are kept; nil: nothing is known of that.
func (k *keeper) lost(ctx context.Context, uri string) *journal.Held {
	var last *journal.Held
	for p, err := range k.d.journal.Past(ctx, uri, uri+"\x00", k.AtSeq) {
		if err != nil {
			return nil
		}
		if p.Was == journal.WasHeld && len(p.Hashes) > 0 {
			if last = &p.Held; k.has(ctx, &p) {
				last = nil
			}
		}
	}
	return last
}

// like returns the version before of a large content, if there is one.
func (k *keeper) like(ctx context.Context, h *journal.Held) (like []vault.Digest) {
	if h.Length < likeFrom {
		return nil
	}
	for p, err := range k.d.journal.Past(ctx, h.URI, h.URI+"\x00", 0) {
		if err != nil {
			return nil // it takes more room, that is all
		}
		if p.Digest != (vault.Digest{}) {
			like = append(like[:0], p.Digest)
		}
	}
	return like
}

// A countedReader hashes what it reads, and remembers why it ended.
type countedReader struct {
	r    io.Reader
	sums *resourcesync.Hasher
	n    int64
	err  error // but io.EOF
}

func (c *countedReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	_, _ = c.sums.Write(p[:n]) // a hash takes everything
	c.n += int64(n)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

// keepBatch keeps what the contents of a shipment are to replace. What cannot
// be kept is not replaced.
func (p *applier) keepBatch(ctx context.Context, l *shipment) {
	if !p.keep.isOn() {
		return
	}
	var at []int // of those that replace something
	var hs []journal.Held
	for i := range l.batch {
		o := &l.batch[i]
		before, after := &o.action.held, &o.held
		if o.action.isHeld() && !sameContent(before, after) {
			at, hs = append(at, i), append(hs, *before)
		}
		if differs(before, after) {
			past := pastOf(o.action.URI, before)
			o.past = &past
		}
	}
	failed := map[int]error{}
	for i, c := range p.keep.capture(ctx, hs) {
		l.batch[at[i]].past = &c.past
		switch {
		case c.err != nil:
			failed[at[i]] = c.err
		case c.lost != nil && sameContent(c.lost, &l.batch[at[i]].held): // it was repaired
		case c.warning != "":
			l.unkept = append(l.unkept, Failure{URI: c.past.URI, Cause: c.warning})
		}
	}
	if len(failed) == 0 {
		return
	}
	rest := make([]outcome, 0, len(l.batch))
	for i := range l.batch {
		if err := failed[i]; err != nil {
			l.drop(p, l.batch[i], err, true)
		} else {
			rest = append(rest, l.batch[i])
		}
	}
	l.batch = rest
}

// past returns what a shipment says of the past.
func (l *shipment) past() []journal.Past {
	ps := l.rows.Past
	for i := range l.batch {
		if past := l.batch[i].past; past != nil {
			ps = append(ps, *past)
		}
	}
	return ps
}

// keepRemoved keeps what is to be removed, and notes it. It returns what may be
// removed; the rest has failed.
func (p *applier) keepRemoved(ctx context.Context, batch []action) ([]action, error) {
	if !p.keep.isOn() || len(batch) == 0 {
		return batch, nil
	}
	hs := make([]journal.Held, len(batch))
	for i := range batch {
		hs[i] = batch[i].held
	}
	var b journal.Batch
	var rest []action
	for i, c := range p.keep.capture(ctx, hs) {
		switch {
		case c.err != nil && (ctx.Err() != nil || isFatal(c.err)):
			return nil, c.err
		case c.err != nil:
			p.fail(&batch[i], fmt.Errorf("remove %s%s: %w", fetch.Printable(batch[i].URI), p.d.inDest(), c.err))
			continue
		case c.warning != "":
			p.notKept(c.past.URI, c.warning)
		}
		b.Past, rest = append(b.Past, c.past), append(rest, batch[i])
	}
	if err := p.keep.record(ctx, p.d.journal, b); err != nil {
		return nil, fmt.Errorf("record what is removed: %w", err)
	}
	return rest, nil
}

// notKept warns of a version of which nothing was left to keep.
func (p *applier) notKept(uri, text string) {
	p.report.NotKept++
	p.warn(uri, text)
}
