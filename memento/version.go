package memento

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockstep/internal/hangup"
	"lockstep/internal/negotiate"
)

const (
	// smallBytes is the size up to which a version is held in memory while it is
	// sent, ...
	smallBytes = 32 << 10

	// ... and checkBytes that up to which it is read twice: damage can then be
	// answered with an error. For larger versions the answer ends where the damage
	// begins.
	checkBytes = 64 << 20

	// checksAtOnce is how many versions are verified at a time. A request that
	// waited may find that another has verified the same bytes.
	checksAtOnce = 8

	// checkTime is how long verified bytes count as intact before they are read
	// twice again, and checkMost the number of versions for which that is
	// remembered.
	checkTime = 10 * time.Minute
	checkMost = 10_000

	cacheForever = "public, max-age=31536000, immutable"
)

// memento answers with a version, whose bytes never change (ME-MM-01,
// ME-MM-03). rest is its instant and the URI.
func (h *Handler) memento(w http.ResponseWriter, r *http.Request, rest string) {
	text, uri, _ := strings.Cut(rest, "/")
	at, ok := parseStamp(text)
	if !ok {
		h.fail(w, http.StatusNotFound, "the address of a version has its instant, as in %s20060102150405/, and the URI", VersionsPrefix)
		return
	}
	uri, a, v, err := h.version(r, uri, at)
	if err != nil {
		h.broken(w, r, uri, err)
		return
	}
	header := w.Header()
	header.Set("Link", h.links(uri, &a)) // ME-LK-01
	switch {
	case v.IsZero() && a.Known && !at.After(a.Dropped): // ME-RET-01
		h.fail(w, http.StatusGone, "of %s the version of %s is no longer kept", escape(uri), FormatDatetime(at))
	case v.IsZero(), v.Gone && v.Length < 0:
		h.fail(w, http.StatusNotFound, "of %s there is no version of %s", escape(uri), FormatDatetime(at))
	case v.Gone: // ME-MM-04: the answer that the resource gave then
		header.Set("Memento-Datetime", FormatDatetime(v.At))
		h.fail(w, http.StatusNotFound, "%s was deleted at %s", escape(uri), FormatDatetime(v.At))
	default:
		h.content(w, r, v)
	}
}

// version returns the version that a request identifies by a URI and its
// instant, to the microsecond, and the versions around it; the zero Version if
// there is none.
func (h *Handler) version(r *http.Request, uri string, at time.Time) (string, Around, Version, error) {
	uri, a, err := h.known(r.Context(), uri, at)
	if err == nil && a.Known {
		err = h.exactly(r.Context(), uri, at, &a)
	}
	return uri, a, a.Selected, err
}

// exactly corrects a, which describes the versions around at to the second, to
// those around the version of exactly that instant. It does not determine the
// version before one that others in the same second follow.
func (h *Handler) exactly(ctx context.Context, uri string, at time.Time, a *Around) error {
	if a.Selected.At.Equal(at) {
		return nil
	}
	a.Selected, a.Prev, a.Next = Version{}, Version{}, Version{}
	for v, err := range h.store.List(ctx, uri, at.Add(-time.Microsecond)) {
		switch {
		case err != nil:
			return err
		case a.Selected.IsZero() && !v.At.Equal(at):
			return nil
		case a.Selected.IsZero():
			a.Selected = v
		case !v.Gone:
			a.Next = v
			return nil
		}
	}
	return nil
}

// content answers with the bytes of v, after verifying them.
func (h *Handler) content(w http.ResponseWriter, r *http.Request, v Version) {
	content, err := h.open(r.Context(), v)
	if err != nil {
		h.damaged(w, r, v, err)
		return
	}
	defer content.Close() // opened for reading only
	header := w.Header()
	header.Set("Memento-Datetime", FormatDatetime(v.At)) // ME-HD-05
	header.Set("Cache-Control", cacheForever)
	header.Set("ETag", `"`+hex.EncodeToString(v.Digest[:])+`"`)
	header.Set("Content-Type", "application/octet-stream")
	if v.Type != "" {
		header.Set("Content-Type", v.Type)
	}
	if policy := h.opts.Policy(v.URI); policy != "" {
		header.Set("Content-Security-Policy", policy)
	}
	if v.Encoding != "" {
		header.Set("Content-Encoding", v.Encoding)
		w = &sizedWriter{w, v.Length}
	}
	watched := &watchedReader{ReadSeeker: content}
	negotiate.ServeContent(w, r, v.Lastmod.Truncate(time.Second), watched)
	if watched.err != nil {
		h.log(r, v, watched.err)
		panic(http.ErrAbortHandler) // informs net/http that the answer is incomplete
	}
}

// open opens the bytes of v, and verifies them if they are small enough and
// were not verified recently.
func (h *Handler) open(ctx context.Context, v Version) (Content, error) {
	content, err := h.opts.Open(ctx, v)
	if err != nil || v.Length > checkBytes || v.Length > smallBytes && h.checked.lately(v.Digest) {
		return content, err
	}
	if v.Length <= smallBytes {
		defer content.Close() // opened for reading only
		text, err := io.ReadAll(io.LimitReader(content, v.Length+1))
		if err == nil {
			err = v.compare(int64(len(text)), sha256.Sum256(text))
		}
		return &held{bytes.NewReader(text)}, err
	}
	if err := h.check(ctx, v, content); err != nil {
		_ = content.Close() // it is unusable
		return nil, err
	}
	return content, nil
}

// check verifies the bytes of v, unless another request has done so meanwhile.
func (h *Handler) check(ctx context.Context, v Version, content Content) error {
	select {
	case h.checking <- struct{}{}:
		defer func() { <-h.checking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if h.checked.lately(v.Digest) {
		return nil
	}
	sum := sha256.New()
	n, err := io.Copy(sum, io.LimitReader(content, v.Length+1))
	if err == nil {
		err = v.compare(n, [32]byte(sum.Sum(nil)))
	}
	if err == nil {
		_, err = content.Seek(0, io.SeekStart)
	}
	if err == nil {
		h.checked.add(v.Digest)
	}
	return err
}

// compare returns an error if the bytes are not those of v.
func (v *Version) compare(n int64, digest [32]byte) error {
	if n != v.Length {
		return fmt.Errorf("there are not %d bytes", v.Length)
	}
	if digest != v.Digest {
		return fmt.Errorf("the bytes have the SHA-256 %x, not %x", digest, v.Digest)
	}
	return nil
}

// damaged answers for a version whose bytes are damaged or missing.
func (h *Handler) damaged(w http.ResponseWriter, r *http.Request, v Version, err error) {
	if hangup.Is(r.Context(), err) {
		panic(http.ErrAbortHandler) // the client has disconnected
	}
	if errors.Is(err, fs.ErrNotExist) {
		uri, a, now, again := h.version(r, v.URI, v.At)
		if again == nil && now.IsZero() { // dropped meanwhile
			w.Header().Set("Link", h.links(uri, &a))
			h.fail(w, http.StatusGone, "of %s the version of %s is no longer kept", escape(uri), FormatDatetime(v.At))
			return
		}
	}
	h.log(r, v, err)
	w.Header().Set("Cache-Control", "no-store")
	h.fail(w, http.StatusInternalServerError, "the stored bytes of %s are damaged", h.opts.Base.Memento(v.URI, v.At))
}

func (h *Handler) log(r *http.Request, v Version, err error) {
	if r.Context().Err() == nil {
		h.opts.Logger.ErrorContext(r.Context(), "stored version is damaged",
			slog.String("uri", h.opts.Base.Memento(v.URI, v.At)), slog.Any("err", err))
	}
}

// checked remembers recently verified contents.
type checked struct {
	mu   sync.Mutex // guards when
	when map[[32]byte]time.Time
}

func (c *checked) lately(digest [32]byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.when[digest]
	return ok && time.Since(at) < checkTime
}

func (c *checked) add(digest [32]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.when == nil || len(c.when) >= checkMost {
		c.when = make(map[[32]byte]time.Time)
	}
	c.when[digest] = time.Now()
}

// A held is a content in memory.
type held struct{ *bytes.Reader }

func (*held) Close() error { return nil }

// A watchedReader remembers its read error.
type watchedReader struct {
	io.ReadSeeker
	err error
}

func (r *watchedReader) Read(p []byte) (int, error) {
	n, err := r.ReadSeeker.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}

// A sizedWriter sets the length of an answer with a content coding, which
// ServeContent omits in case a later handler encodes it.
type sizedWriter struct {
	http.ResponseWriter
	size int64
}

func (w *sizedWriter) WriteHeader(status int) {
	if status == http.StatusOK {
		w.Header().Set("Content-Length", strconv.FormatInt(w.size, 10))
	}
	w.ResponseWriter.WriteHeader(status)
}

// ReadFrom leaves the copying to the underlying writer.
func (w *sizedWriter) ReadFrom(src io.Reader) (int64, error) { return io.Copy(w.ResponseWriter, src) }

func (w *sizedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
