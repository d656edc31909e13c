package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"lockstep/catalog"
	"lockstep/internal/negotiate"
	"lockstep/resourcesync"
)

// stream serves a resource that is no file of ours, but whose bytes we can open,
// as the catalog describes it (RS-HTTP-01). It reports false if the request is
// for none of that kind.
func (h *handler) stream(w http.ResponseWriter, r *http.Request, rel string, v view) bool {
	for i := range h.opts.Sets {
		set := &h.opts.Sets[i]
		if !set.Stream || set.Bitstream == nil || !set.covers(rel) || !v.sees(set) {
			continue
		}
		err := h.streamCurrent(w, r, set, rel, v)
		switch {
		case err == nil:
			return true
		case !errors.Is(err, fs.ErrNotExist):
			h.refuse(w, r, rel, err)
			return true
		}
	}
	return false
}

// ErrReplaced is what Bitstream returns for a resource that is being replaced: its record
// does not describe it.
var ErrReplaced = errors.New("the resource is being replaced")

// How often, and after which waits, a resource is looked up again that is being replaced:
// its record follows within milliseconds.
const (
	ReplacedTries = 50
	ReplacedWait  = 20 * time.Millisecond
)

// streamCurrent answers with the bytes of the resource at rel, as soon as its record
// describes them, or returns why it cannot.
func (h *handler) streamCurrent(w http.ResponseWriter, r *http.Request, set *Set, rel string, v view) error {
	for try := 1; ; try++ {
		record, err := h.lookup(r.Context(), set, h.docs.Base.Origin()+sentPath(r.URL))
		if err == nil {
			err = h.streamRecord(w, r, set, record, rel, v)
		}
		if !errors.Is(err, ErrReplaced) || try == ReplacedTries {
			return err
		}
		wait := time.NewTimer(ReplacedWait)
		select {
		case <-wait.C:
		case <-r.Context().Done():
			wait.Stop()
			return context.Cause(r.Context())
		}
	}
}

// lookup returns what the catalog knows of a resource; fs.ErrNotExist if that is
// nothing.
func (h *handler) lookup(ctx context.Context, set *Set, uri string) (*catalog.Record, error) {
	record, ok, err := catalog.Find(ctx, h.opts.Catalog, h.docs.CapabilityList(set.Name), uri)
	if err == nil && !ok {
		err = fs.ErrNotExist
	}
	return &record, err
}

// streamRecord answers with the bytes of a record, or returns why it cannot.
// Once the answer has begun, bytes that are not those it described break it off,
// so that no client takes them for whole.
func (h *handler) streamRecord(w http.ResponseWriter, r *http.Request, set *Set, record *catalog.Record, rel string, v view) error {
	etag := recordTag(record)
	if negotiate.Has(r.Header["If-None-Match"], etag) {
		h.describe(w, record, rel, v, etag)
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	if r.Method == http.MethodHead {
		h.describe(w, record, rel, v, etag)
		if record.Length >= 0 {
			w.Header().Set("Content-Length", strconv.FormatInt(record.Length, 10))
		}
		return nil
	}
	body, err := set.Bitstream(r.Context(), record)
	if err != nil {
		return err
	}
	defer body.Close() // opened for reading only
	h.describe(w, record, rel, v, etag)
	if seeker, ok := body.(io.ReadSeeker); ok {
		negotiate.ServeContent(w, r, lastModified(record.Lastmod, h.docs.Now()), seeker)
		return nil
	}
	if record.Length >= 0 {
		w.Header().Set("Content-Length", strconv.FormatInt(record.Length, 10))
	}
	if _, err := io.Copy(w, body); err != nil {
		h.docs.Log.InfoContext(r.Context(), "broke off a resource", slog.String("uri", record.URI), slog.Any("err", err))
		panic(http.ErrAbortHandler) // how net/http ends an answer
	}
	return nil
}

// describe states what is known of a resource.
func (h *handler) describe(w http.ResponseWriter, record *catalog.Record, rel string, v view, etag string) {
	header := w.Header()
	header["Link"] = h.versionLinks(h.coverage(rel, v), rel, v, record.URI)
	h.sandbox(header, rel, v)
	header["Cache-Control"] = revalidate
	typ := record.Type
	if typ == "" {
		typ = "application/octet-stream"
	}
	header.Set("Content-Type", typ)
	if record.Encoding != "" {
		header.Set("Content-Encoding", record.Encoding)
	}
	if etag != "" {
		header.Set("ETag", etag)
	}
	if mod := lastModified(record.Lastmod, h.docs.Now()); !mod.IsZero() {
		header.Set("Last-Modified", mod.UTC().Format(http.TimeFormat))
	}
}

// recordTag returns a strong entity tag, or "" if no hash is known.
func recordTag(record *catalog.Record) string {
	for _, a := range []resourcesync.Algorithm{resourcesync.SHA256, resourcesync.SHA512, resourcesync.MD5} {
		if digest := record.Hashes.Get(a); digest != "" {
			return fmt.Sprintf("\"%x\"", digest[:min(len(digest), 16)])
		}
	}
	return ""
}
