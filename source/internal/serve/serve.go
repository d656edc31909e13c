// Package serve answers requests for the documents, resources, versions, topics
// and pages of a Source.
package serve

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/internal/hangup"
	"lockstep/internal/negotiate"
	"lockstep/memento"
	"lockstep/source/internal/demand"
	"lockstep/source/internal/describe"
	"lockstep/source/internal/document"
	"lockstep/source/internal/names"
	"lockstep/source/internal/notify"
	"lockstep/source/internal/page"
)

// Options are what answers depend on.
type Options struct {
	Docs     *document.Store
	Catalog  catalog.Catalog
	Sets     []Set
	Channels *notify.Channels
	Streams  *notify.Streams // of events; nil: there are none
	Packages *demand.Handler // on demand; nil: there are none
	Pages    *page.Pages
	Versions *memento.Handler // nil: none are kept

	// Content opens the resource of a public set at a path relative to the base URL, Type
	// returns its media type by its first bytes; Content may be nil.
	Content func(rel string) (*os.File, fs.FileInfo, error)
	Type    func(rel string, head []byte) string

	// OnlySets has no documents served but those of the sets, and of the Source as a
	// whole. With it, Description returns the Source Description for readers of some private
	// sets, and Current reports whether the published one is that of the sets.
	OnlySets    bool
	Description func(readable []string) ([]byte, error)
	Current     func() bool
}

// A Set is a set of resources.
type Set struct {
	Name      string
	Path      string // its resources are those at and below this path relative to the base URL
	Elsewhere bool   // they are not below the base URL
	Rules     describe.Rules
	Stream    bool // serve resources by Bitstream where there is no Content
	Versions  bool // it keeps versions
	Private   bool // only its readers may see what belongs to it
	Sandbox   bool // others have written its resources
	Bitstream func(ctx context.Context, r *catalog.Record) (io.ReadCloser, error)
	Hold      func() bool // reports whether it is not published for the first time yet; may be nil

	Content func(rel string) (*os.File, fs.FileInfo, error) // of a private set; may be nil
	Store   memento.Store                                   // of its versions; nil: there are none
}

func (set *Set) covers(rel string) bool { return page.Covers(set.Path, set.Elsewhere, rel) }

// A handler answers requests for documents, resources and pages.
type handler struct {
	opts     Options
	docs     *document.Store
	cache    *cache
	links    []coverage
	versions *memento.Handler // nil: none are kept
	pages    *page.Pages
	gate     *gate
	began    time.Time
	modified modified // the Source Descriptions of readers

	sandboxes []*Set // sets with Sandbox that are below the base URL

	warned atomic.Int64 // when a lack of open files was last logged, in nanoseconds
	busy   atomic.Int64 // requests that were refused for it and are not logged yet
}

// A coverage is the Link header value of a set.
type coverage struct {
	set  *Set
	path string // decoded, without slashes at the ends; "" covers all
	link []string
}

// New returns what answers requests for what is below the base URL. Only GET and
// HEAD are allowed, except of packages on demand. It must see requests as they
// were sent.
func New(o Options) http.Handler {
	h := &handler{opts: o, docs: o.Docs, cache: newCache(), versions: o.Versions, pages: o.Pages.For(nil), began: o.Docs.Now()}
	h.gate = &gate{docs: o.Docs, sets: o.Sets, content: o.Content, versions: o.Versions, versionTarget: h.versionTarget, lookup: h.lookup}
	for i := range o.Sets {
		set := &o.Sets[i]
		if set.Sandbox && !set.Elsewhere {
			h.sandboxes = append(h.sandboxes, set)
		}
		h.gate.public, h.gate.private = h.gate.public || !set.Private, h.gate.private || set.Private
		h.links = append(h.links, coverage{
			set:  set,
			path: strings.Trim(set.Path, "/"),
			link: []string{"<" + o.Docs.CapabilityList(set.Name) + `>; rel="resourcesync"`},
		})
	}
	return h
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header()["X-Content-Type-Options"] = nosniff
	if h.opts.OnlySets {
		h.admit(w, r, h.serve)
		return
	}
	h.serve(w, r, nil)
}

// serve answers a request whose client may see what it asks for.
func (h *handler) serve(w http.ResponseWriter, r *http.Request, v view) {
	header := w.Header()
	if h.demand(w, r) {
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		h.fail(w, r, http.StatusMethodNotAllowed)
		return
	}
	if target, ok := h.versionTarget(r); ok {
		h.versions.Answer(w, r, target)
		return
	}
	rel, ok := h.docs.Base.Locate(sentPath(r.URL))
	switch {
	case !ok:
		h.fail(w, r, http.StatusNotFound)
	case rel == names.Home:
		h.home(w, r, v)
	case rel == names.Health:
		header.Set("Content-Type", "text/plain; charset=utf-8")
		header.Set("Cache-Control", "no-store")
		negotiate.ServeContent(w, r, time.Time{}, strings.NewReader("ok\n"))
	case names.IsTopic(rel):
		h.topic(w, r, rel, v)
	case names.IsPackage(rel), names.IsPatch(rel):
		h.parcel(w, r, rel)
	case rel == names.WellKnown && len(v) > 0:
		h.description(w, r, v)
	case names.Served(rel):
		h.document(w, r, rel)
	case names.Reserved(rel), h.versions != nil && memento.Contains(rel):
		h.fail(w, r, http.StatusNotFound)
	default:
		h.resource(w, r, rel, v)
	}
}

// sentPath returns the path as it was sent. EscapedPath would make up another
// one where that has bytes that should have been encoded, and lose an encoded
// slash.
func sentPath(u *url.URL) string {
	if u.RawPath != "" {
		return u.RawPath
	}
	return u.EscapedPath()
}

var (
	nosniff        = []string{"nosniff"}
	doNotNegotiate = []string{memento.DoNotNegotiate}
	revalidate     = []string{CacheRevalidate}
)

// document serves a document, which stays the same while it is read.
func (h *handler) document(w http.ResponseWriter, r *http.Request, name string) {
	if h.opts.OnlySets && aboutAll(name) && !h.opts.Current() {
		h.refuse(w, r, name, errNotCurrent)
		return
	}
	doc, err := h.docs.Open(r.Context(), name)
	if err != nil {
		h.refuse(w, r, name, err)
		return
	}
	defer doc.Close() // opened for reading only
	zip := negotiate.Gzip(r.Header["Accept-Encoding"]) && !strings.HasSuffix(name, names.GzipSuffix)
	known, err := h.cache.get(doc, zip)
	if err != nil {
		h.refuse(w, r, name, err)
		return
	}
	header := w.Header()
	typ, caching := Attributes(name)
	header.Set("Content-Type", typ)
	header.Set("Cache-Control", caching)
	header.Add("Vary", "Accept-Encoding")
	if name == names.Hint {
		page.Secure(header)
	}
	if h.versions != nil {
		header["Link"] = doNotNegotiate // ME-IM-02
	}
	mod := lastModified(known.mod, h.docs.Now())
	if !zip {
		header.Set("ETag", `"`+known.etag+`"`)
		negotiate.ServeContent(w, r, mod, doc)
		return
	}
	header.Set("ETag", `"`+known.etag+`-gzip"`)
	header.Set("Content-Encoding", "gzip")
	negotiate.ServeContent(&sizedWriter{w, len(known.gzip)}, r, mod, bytes.NewReader(known.gzip))
}

// errNotCurrent reports a document about the Source as a whole that may name sets which
// have become private, and is about to be written.
var errNotCurrent = errors.New("the document is about to be published")

// aboutAll reports whether a document is about the Source as a whole.
func aboutAll(name string) bool {
	return name == names.WellKnown || name == names.Robots || name == names.Hint
}

// A sizedWriter states the length of a compressed document, which ServeContent
// leaves out in case another handler compresses after it.
type sizedWriter struct {
	http.ResponseWriter
	size int
}

func (w *sizedWriter) WriteHeader(status int) {
	if status == http.StatusOK {
		w.Header().Set("Content-Length", strconv.Itoa(w.size))
	}
	w.ResponseWriter.WriteHeader(status)
}

// ReadFrom leaves the copying to what is below.
func (w *sizedWriter) ReadFrom(src io.Reader) (int64, error) { return io.Copy(w.ResponseWriter, src) }

func (w *sizedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// resource serves a resource (RS-HTTP-01), never coded: the hash and length we
// publish are those of the bytes as they are served (RS-HASH-07).
func (h *handler) resource(w http.ResponseWriter, r *http.Request, rel string, v view) {
	f, info, err := h.content(rel, v)
	if errors.Is(err, fs.ErrNotExist) && h.stream(w, r, rel, v) {
		return
	}
	if err != nil {
		h.refuse(w, r, rel, err)
		return
	}
	defer f.Close() // opened for reading only
	if !info.Mode().IsRegular() {
		h.refuse(w, r, rel, fs.ErrNotExist)
		return
	}
	buf := heads.Get().(*[]byte)
	defer heads.Put(buf)
	n, err := f.ReadAt(*buf, 0)
	if err != nil && err != io.EOF {
		h.refuse(w, r, rel, err)
		return
	}
	head := (*buf)[:n]
	typ := h.opts.Type(rel, head[:min(n, maxHead)])
	if typ == "" {
		typ = "application/octet-stream"
	}
	now := h.docs.Now()
	header := w.Header()
	header["Link"] = h.coverage(rel, v)
	if h.versions != nil {
		header["Link"] = h.versionLinks(header["Link"], rel, v, h.docs.Base.Origin()+sentPath(r.URL))
	}
	h.sandbox(header, rel, v)
	header["Cache-Control"] = revalidate
	header["Content-Type"] = []string{typ}
	if err == nil || int64(n) == info.Size() { // else it has just been cut short
		header["Etag"] = []string{entityTag(info, now)}
	}
	var content io.ReadSeeker = f
	if err == io.EOF {
		content = bytes.NewReader(head) // all of it: one reading instead of two
	}
	negotiate.ServeContent(w, r, lastModified(info.ModTime(), now), content)
}

// content opens the file of the resource at rel: that of a public set, or else that of a
// private one.
func (h *handler) content(rel string, v view) (f *os.File, info fs.FileInfo, err error) {
	err = fs.ErrNotExist
	if h.opts.Content != nil {
		f, info, err = h.opts.Content(rel)
	}
	for i := range h.opts.Sets {
		if len(v) == 0 || !errors.Is(err, fs.ErrNotExist) {
			break
		}
		if set := &h.opts.Sets[i]; set.Content != nil && v.sees(set) && set.covers(rel) {
			f, info, err = set.Content(rel)
		}
	}
	return f, info, err
}

const (
	maxHead    = 3 << 10  // what Options.Type is shown
	smallBytes = 32 << 10 // files below this are read at once
)

var heads = sync.Pool{New: func() any { return new(make([]byte, smallBytes)) }}

// coverage returns the Link header values for a resource: the Capability Lists
// of the sets it is in (RS-DISC-04), as far as the client may see them.
func (h *handler) coverage(rel string, v view) []string {
	if len(h.links) == 1 && h.links[0].path == "" && !h.links[0].set.Elsewhere {
		return h.links[0].link
	}
	var links []string
	for _, c := range h.links {
		if c.set.Elsewhere || !v.sees(c.set) {
			continue
		}
		if rest, ok := strings.CutPrefix(rel, c.path); c.path == "" || ok && (rest == "" || rest[0] == '/') {
			links = append(links, c.link...)
		}
	}
	return links
}

// racy is how old a change must be for the times of a file to distinguish it from the
// next one: file systems count in ticks of up to 10 ms.
const racy = 50 * time.Millisecond

// entityTag returns a strong entity tag from all that changes with a file's
// content. While the file is so young that it could change once more without
// that showing, the tag is for this response only.
func entityTag(info fs.FileInfo, now time.Time) string {
	mod := info.ModTime().UnixNano()
	changed, inode := changeTime(info)
	b := make([]byte, 0, 96)
	b = append(b, '"')
	b = strconv.AppendInt(b, info.Size(), 36)
	b = append(b, '-')
	b = strconv.AppendInt(b, mod, 36)
	b = append(b, '-')
	b = strconv.AppendInt(b, changed, 36)
	b = append(b, '-')
	b = strconv.AppendUint(b, inode, 36)
	if changed == 0 {
		changed = mod
	}
	if age := now.UnixNano() - changed; -int64(racy) < age && age < int64(racy) {
		b = append(b, '-')
		b = strconv.AppendInt(b, now.UnixNano(), 36)
	}
	return string(append(b, '"'))
}

// lastModified returns what to state as the time of a modification at mod. The
// header counts in seconds; until the second of a modification is over, another
// may follow in it, so the second before is stated. A client that asks later whether
// there is anything newer then gets it. A modification after now was made by a process whose
// clock is ahead of this one. Any time stated for it could be that of a version before it, so
// the zero time is returned: only the entity tag distinguishes it.
func lastModified(mod, now time.Time) time.Time {
	if mod.After(now) {
		return time.Time{}
	}
	mod = mod.Truncate(time.Second)
	if over := now.Truncate(time.Second).Add(-time.Second); mod.After(over) {
		return over
	}
	return mod
}

// refuse answers a request for what could not be opened. This is the one table
// from errors to statuses.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, name string, err error) {
	switch {
	case isMissing(err):
		if retry := h.held(r.Context(), name); retry != "" {
			w.Header().Set("Retry-After", retry)
			h.fail(w, r, http.StatusServiceUnavailable)
			return
		}
		h.fail(w, r, http.StatusNotFound, h.goneLinks(r, name)...)
	case errors.Is(err, fs.ErrPermission):
		h.fail(w, r, http.StatusForbidden)
	case errors.Is(err, ErrReplaced), errors.Is(err, errNotCurrent):
		w.Header().Set("Retry-After", "1")
		h.fail(w, r, http.StatusServiceUnavailable)
	case hangup.Is(r.Context(), err):
		panic(http.ErrAbortHandler) // the client is gone
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		h.warnFiles(r, name)
		w.Header().Set("Retry-After", "1")
		h.fail(w, r, http.StatusServiceUnavailable)
	case errors.Is(err, blob.ErrUnavailable):
		h.docs.Log.ErrorContext(r.Context(), "cannot serve", slog.String("doc", name), slog.Any("err", err))
		w.Header().Set("Retry-After", unavailableRetry)
		h.fail(w, r, http.StatusServiceUnavailable)
	default:
		h.docs.Log.ErrorContext(r.Context(), "cannot serve", slog.String("doc", name), slog.Any("err", err))
		h.fail(w, r, http.StatusInternalServerError)
	}
}

// unavailableRetry is after how many seconds a client should come again if the store of the
// documents does not work. It was tried several times before.
const unavailableRetry = "5"

// After how many seconds a client should come again that requests a document of a set that
// is not published yet: because it is held, or because that has just ended. While a set is
// not held for longer than heldBriefly, clients may wait; afterwards they should go on with
// other sets, and a Destination does so if it would have to wait for more than a minute.
const (
	heldBriefly    = 10 * time.Second
	heldRetry      = "2"
	heldRetryLater = "90"
	releasedRetry  = "1"
)

// held returns after how many seconds a client should come again that requested name, if
// that was not found because it is a document of a set that is not published for the
// first time yet, or just has been; otherwise "".
func (h *handler) held(ctx context.Context, name string) string {
	rest, ok := strings.CutPrefix(name, names.DocumentsDir)
	dir, _, deeper := strings.Cut(rest, "/")
	for i := range h.opts.Sets {
		set := &h.opts.Sets[i]
		if !ok || !deeper || set.Name != dir || set.Hold == nil {
			continue
		}
		switch {
		case set.Hold() && h.docs.Now().Sub(h.began) > heldBriefly:
			return heldRetryLater
		case set.Hold():
			return heldRetry
		}
		_, unpublished := h.docs.Stat(ctx, names.Set(dir).CapabilityList())
		_, unfound := h.docs.Stat(ctx, name)
		if unpublished != nil || unfound == nil {
			return releasedRetry
		}
	}
	return ""
}

// filesWarning is how often a lack of open files is logged at most.
const filesWarning = time.Minute

// warnFiles logs that a client was asked to come again because no further file can
// be opened, with the number of those since it was last logged.
func (h *handler) warnFiles(r *http.Request, name string) {
	h.busy.Add(1)
	now, last := h.docs.Now().UnixNano(), h.warned.Load()
	if last != 0 && now-last < int64(filesWarning) || !h.warned.CompareAndSwap(last, now) {
		return
	}
	h.docs.Log.WarnContext(r.Context(), "too many open files: clients are asked to come again", slog.String("doc", name), slog.Int64("requests", h.busy.Swap(0)))
}
