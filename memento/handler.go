package memento

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"lockstep/internal/hangup"
	"lockstep/internal/weblink"
)

const (
	// pageEntries is the number of versions on a page of a TimeMap.
	pageEntries = 10_000

	// pagesAtOnce is how many pages are generated at a time: each takes some
	// megabytes.
	pagesAtOnce = 8

	// pageBytes is the size at which a page of a TimeMap is full: versions of
	// resources with very long URIs must not fill memory.
	pageBytes = 4 << 20

	// maxTarget caps the length of a requested address, which answers repeat.
	maxTarget = 8 << 10

	// neighbourly is the maximum length of a URI for which answers name adjacent
	// versions: each link contains the URI, and proxies drop headers beyond a few
	// KB.
	neighbourly = 400
)

// LinkFormat is the media type of a TimeMap (ME-TM-02).
const LinkFormat = "application/link-format"

// Options configures a [Handler]. Base and Open are required.
type Options struct {
	Base Base // base URL of all addresses

	// Open opens the bytes of a version. It returns fs.ErrNotExist if they are not
	// stored.
	Open func(ctx context.Context, v Version) (Content, error)

	// Earlier makes a TimeGate redirect to the preceding version if the resource
	// was deleted at the requested instant (ME-DEL-01).
	Earlier bool

	// Policy returns the Content-Security-Policy of versions of the resource at uri; "": none.
	// Default: none.
	Policy func(uri string) string

	Logger *slog.Logger // default: discards
	Page   int          // versions on a page of a TimeMap; default and limit 10,000
}

// A Handler serves the versions of a Store according to pattern 2.1 of the
// Memento protocol (ME-GEN-04): below the base URL
//
//   - timegate/URI redirects to the version of the resource URI that was
//     current at the Accept-Datetime of the request;
//   - timemap/URI lists its versions, in link format or, on request, in JSON,
//     which timemap/json/URI always returns;
//   - versions/STAMP/URI is a version.
//
// It must receive request targets unchanged: do not put it behind an
// [http.ServeMux] pattern that cleans paths (ME-TG-08).
type Handler struct {
	store   Store
	opts    Options
	path    string // of the base URL, unchanged
	checked checked
	pages   pages
	writing chan struct{} // held while a page of a TimeMap is generated

	checking chan struct{} // held while a version is verified
}

// NewHandler returns a Handler of the versions in s.
func NewHandler(s Store, o Options) *Handler {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Policy == nil {
		o.Policy = func(string) string { return "" }
	}
	if o.Page <= 0 || o.Page > pageEntries {
		o.Page = pageEntries
	}
	h := &Handler{store: s, opts: o, path: "/", writing: make(chan struct{}, pagesAtOnce), checking: make(chan struct{}, checksAtOnce)}
	if u, err := url.Parse(string(o.Base)); err == nil {
		h.path = u.EscapedPath()
	}
	return h
}

// ServeHTTP answers requests for addresses below the base URL.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	target, ok := strings.CutPrefix(Target(r), h.path)
	if !ok {
		h.fail(w, http.StatusNotFound, "there is nothing here")
		return
	}
	h.Answer(w, r, target)
}

// Target returns the path and query of a request as sent by the client
// (ME-TG-08).
func Target(r *http.Request) string {
	t := r.RequestURI
	if t == "" { // the request was not received by a server
		return r.URL.RequestURI()
	}
	if t[0] != '/' { // absolute, as sent to a proxy
		if _, rest, ok := strings.Cut(t, "://"); ok {
			if i := strings.IndexAny(rest, "/?"); i >= 0 {
				return rest[i:]
			}
		}
	}
	return t
}

// Answer answers a request for target, the requested path and query below the
// base URL as sent by the client. Only the prefix must have the spelling
// defined here.
func (h *Handler) Answer(w http.ResponseWriter, r *http.Request, target string) {
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodGet && r.Method != http.MethodHead { // ME-TG-09
		header.Set("Allow", "GET, HEAD")
		h.fail(w, http.StatusMethodNotAllowed, "only GET and HEAD are allowed here")
		return
	}
	if len(target) > maxTarget {
		h.fail(w, http.StatusRequestURITooLong, "the address has more than %d bytes", maxTarget)
		return
	}
	prefix, rest, _ := strings.Cut(target, "/")
	prefix += "/"
	switch {
	case rest == "" && (prefix == TimeGatePrefix || prefix == TimeMapPrefix):
		h.fail(w, http.StatusNotFound, "the address ends in the URI of a resource, as in %s%shttps://example.org/page", h.opts.Base, prefix)
	case prefix == TimeGatePrefix:
		h.timeGate(w, r, rest)
	case prefix == TimeMapPrefix:
		h.timeMap(w, r, rest)
	case prefix == VersionsPrefix:
		h.memento(w, r, rest)
	default:
		h.fail(w, http.StatusNotFound, "there is nothing here")
	}
}

// URIs returns the URIs that target may name, as [Handler.Answer] looks for them: one URI
// in the spellings that clients and proxies make of it. It returns nil if target names
// none.
func (h *Handler) URIs(target string) []string {
	if len(target) > maxTarget {
		return nil // refused before its URI is looked for
	}
	prefix, rest, _ := strings.Cut(target, "/")
	switch prefix + "/" {
	case TimeGatePrefix:
	case TimeMapPrefix:
		_, _, rest = cutPage(rest)
	case VersionsPrefix:
		_, rest, _ = strings.Cut(rest, "/")
	default:
		return nil
	}
	if rest == "" {
		return nil
	}
	return spellings(rest)
}

// Knows reports whether the resource at uri has or had a version.
func (h *Handler) Knows(ctx context.Context, uri string) (bool, error) {
	_, a, err := h.known(ctx, uri, time.Time{})
	return a.Known, err
}

// known returns the versions around an instant of the resource that a request
// names as uri. That may be escaped differently from the stored URI, which is
// returned too (ME-TG-08).
func (h *Handler) known(ctx context.Context, uri string, at time.Time) (string, Around, error) {
	for _, candidate := range spellings(uri) {
		a, err := h.store.Around(ctx, candidate, at)
		if err != nil || a.Known {
			return candidate, a, err
		}
	}
	return uri, Around{}, nil
}

// spellings returns the URIs that a URI in an address may mean: itself; itself,
// when a client merged two slashes; itself with what [Base] or a client escaped,
// or should have.
func spellings(uri string) []string {
	var all []string
	add := func(s string) {
		if s == "" || strings.IndexByte(s, 0) >= 0 || !strings.Contains(s, ":") {
			return
		}
		for _, known := range all {
			if known == s {
				return
			}
		}
		all = append(all, s)
	}
	add(uri)
	add(unescape(uri, func(c byte) bool { return !inURI[c] }))
	add(escape(uri))
	whole := unescape(uri, func(byte) bool { return true })
	add(whole)
	for _, s := range []string{uri, whole} {
		scheme, rest, ok := strings.Cut(s, ":/")
		if ok && rest != "" && rest[0] != '/' && !strings.ContainsAny(scheme, "/?#:") {
			add(scheme + "://" + rest)
		}
	}
	return all
}

// unescape decodes the escapes of the bytes that which selects.
func unescape(s string, which func(byte) bool) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil && which(byte(c)) {
				b = append(b, byte(c))
				i += 2
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}

// links returns the value of the Link field of a TimeGate or a version: links to
// the resource (ME-LK-01), to its TimeGate and TimeMap (ME-LK-02, ME-LK-03), and
// to adjacent versions (ME-LK-04).
func (h *Handler) links(uri string, a *Around) string {
	base := h.opts.Base
	b := weblink.Append(nil, escape(uri), "rel", "original")
	if !a.Known {
		return string(b)
	}
	b = weblink.Append(b, base.TimeGate(uri), "rel", "timegate")
	if a.First.IsZero() {
		return string(b) // no version to name
	}
	b = weblink.Append(b, base.TimeMap(uri), "rel", "timemap", "type", LinkFormat,
		"from", FormatDatetime(a.First.At), "until", FormatDatetime(a.Last.At))
	selected := a.Selected
	if selected.Gone {
		selected = Version{}
	}
	around := []*Version{&a.First, &a.Prev, &selected, &a.Next, &a.Last}
	rels := []string{"first ", "prev ", "", "next ", "last "}
	for i, v := range around {
		if v.IsZero() || len(uri) > neighbourly && i != 2 {
			continue
		}
		rel, before := "", false
		for j, other := range around {
			if other.At.Equal(v.At) {
				rel += rels[j]
				before = before || j < i
			}
		}
		if !before {
			b = weblink.Append(b, base.Memento(uri, v.At), "rel", rel+"memento", "datetime", FormatDatetime(v.At))
		}
	}
	return string(b)
}

// fail answers with a status and a message.
func (h *Handler) fail(w http.ResponseWriter, status int, format string, args ...any) {
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	if header.Get("Cache-Control") == "" {
		header.Set("Cache-Control", "no-cache")
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, http.StatusText(status)+": "+fmt.Sprintf(format, args...)+"\n") // the client may have disconnected
}

// broken answers a request for which the index of versions cannot be read, and
// logs the error. If the client has disconnected it closes the connection:
// without a status, the answer would be logged as an empty one with status 200.
func (h *Handler) broken(w http.ResponseWriter, r *http.Request, uri string, err error) {
	if hangup.Is(r.Context(), err) {
		panic(http.ErrAbortHandler)
	}
	h.opts.Logger.ErrorContext(r.Context(), "cannot serve", slog.String("uri", uri), slog.Any("err", err))
	h.fail(w, http.StatusInternalServerError, "the index of versions cannot be read")
}
