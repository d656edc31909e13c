package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/failure"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
	"lockstep/vault"
)

const (
	// captures is the number of files that are read concurrently to be stored.
	captures = 4

	// similarFrom is the length, in bytes, from which a version is stored as its
	// difference from the previous version.
	similarFrom = 64 << 10
)

// A Capture is the result of storing the content of a file that is about to be
// replaced or removed.
type Capture struct {
	Past    journal.Past
	Warning string        // why the content is lost: the file is damaged or gone
	Err     error         // why the content could not be stored: the file must not be changed
	Lost    *journal.Held // the row of the file before it was damaged; nil: it was not damaged, or the row is unknown

	staged *vault.Staged
}

// Capture stores the content of the files of hs. Each staged content may hold a
// file open, so their number is limited.
func (k *Keeper) Capture(ctx context.Context, hs []journal.Held) []Capture {
	got := make([]Capture, 0, len(hs))
	for part := range slices.Chunk(hs, k.m.Open) {
		got = append(got, k.capturePart(ctx, part)...)
	}
	return got
}

func (k *Keeper) capturePart(ctx context.Context, hs []journal.Held) []Capture {
	got := make([]Capture, len(hs))
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
	if err := k.m.Versions.Commit(ctx, staged...); err != nil {
		for i := range got {
			if got[i].staged != nil {
				got[i].Err = keepError(err)
			}
		}
	}
	return got
}

func keepError(err error) error {
	return &content.LocalError{Err: fmt.Errorf("keep the version before: %w", err)}
}

// captureOne stages the content of one file.
func (k *Keeper) captureOne(ctx context.Context, h *journal.Held) Capture {
	c := Capture{Past: Before(h.URI, h)}
	if len(h.Hashes) == 0 {
		if c.Lost = k.lost(ctx, h.URI); c.Lost != nil {
			c.Warning = fmt.Sprintf("the version of %s that was here could not be kept: its file was damaged", fetch.Printable(h.URI))
		}
		return c
	}
	r, err := k.m.Files.Open(ctx, h.Path)
	if err != nil {
		return k.uncaptured(ctx, c, err)
	}
	defer r.Close()
	algs := content.Strongest(h.Hashes)
	sums := k.sums.Get(algs)
	defer k.sums.Put(algs, sums)
	src := &hashingReader{r: content.WithContext(ctx, r), sums: sums}
	s, err := k.m.Versions.Stage(ctx, src, k.similar(ctx, h)...)
	if damaged, ok := errors.AsType[*vault.DamagedError](err); ok { // the previous version is damaged: store this one whole
		k.m.Log.WarnContext(ctx, "a version that was kept is damaged", slog.String("uri", h.URI), slog.Any("err", damaged))
		if _, err = r.Seek(0, io.SeekStart); err != nil {
			return k.uncaptured(ctx, c, err)
		}
		sums.Reset()
		src.n = 0
		s, err = k.m.Versions.Stage(ctx, src)
	}
	switch {
	case src.err != nil:
		return k.uncaptured(ctx, c, src.err)
	case err != nil:
		c.Err = keepError(err)
		return c
	case !sameContent(h, &journal.Held{Length: src.n, Hashes: sums.Sum()}):
		_ = s.Close() // it is not the content recorded
		return k.uncaptured(ctx, c, errors.New("its file is not what was written here"))
	}
	c.staged, c.Past.Digest = s, s.Digest()
	if c.Past.Hashes.Get(resourcesync.SHA256) == "" {
		d := s.Digest()
		c.Past.Hashes = append(c.Past.Hashes[:len(c.Past.Hashes):len(c.Past.Hashes)], resourcesync.Hash{Algorithm: resourcesync.SHA256, Digest: string(d[:])})
	}
	return c
}

// uncaptured records a file that cannot be read. Replacing a file that is damaged
// or gone loses nothing; a file that may be readable later must stay.
func (k *Keeper) uncaptured(ctx context.Context, c Capture, err error) Capture {
	switch {
	case ctx.Err() != nil:
		c.Err = ctx.Err()
	case failure.IsUnreadable(err):
		c.Err = keepError(err)
	case k.has(ctx, &c.Past):
	default:
		c.Warning = fmt.Sprintf("the version of %s that was here could not be kept: %v", fetch.Printable(c.Past.URI), err)
	}
	return c
}

// has reports whether a run that was killed before it changed the file has stored
// its content.
func (k *Keeper) has(ctx context.Context, p *journal.Past) bool {
	for o, err := range k.m.Journal.Past(ctx, p.URI, p.URI+"\x00", k.doc.AtSeq) {
		if err != nil {
			return false // it is then reported as not stored
		}
		if o.Digest != (vault.Digest{}) && sameContent(&o.Held, &p.Held) {
			return true
		}
	}
	return false
}

// lost returns the row of a resource before its file was found damaged in this run,
// unless its bytes are stored; nil: the row is unknown.
func (k *Keeper) lost(ctx context.Context, uri string) *journal.Held {
	var last *journal.Held
	for p, err := range k.m.Journal.Past(ctx, uri, uri+"\x00", k.doc.AtSeq) {
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

// similar returns the previous version of large content, if there is one.
func (k *Keeper) similar(ctx context.Context, h *journal.Held) (similar []vault.Digest) {
	if h.Length < similarFrom {
		return nil
	}
	for p, err := range k.m.Journal.Past(ctx, h.URI, h.URI+"\x00", 0) {
		if err != nil {
			return nil // the version is stored whole
		}
		if p.Digest != (vault.Digest{}) {
			similar = append(similar[:0], p.Digest)
		}
	}
	return similar
}

// A hashingReader hashes and counts the bytes it reads, and remembers its error.
type hashingReader struct {
	r    io.Reader
	sums *resourcesync.Hasher
	n    int64
	err  error // other than io.EOF
}

func (h *hashingReader) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	_, _ = h.sums.Write(p[:n]) // a Hasher never fails
	h.n += int64(n)
	if err != nil && err != io.EOF {
		h.err = err
	}
	return n, err
}
