package serve

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"time"

	"lockstep/internal/negotiate"
	"lockstep/internal/reader"
	"lockstep/source/internal/names"
	"lockstep/source/internal/page"
)

// home serves the page at the base URL, for those who come with a browser.
func (h *handler) home(w http.ResponseWriter, r *http.Request, v view) {
	pages := h.pages
	if len(v) > 0 {
		pages = h.opts.Pages.For(v)
	}
	body, err := pages.RenderHome()
	if err != nil {
		h.refuse(w, r, "home page", err)
		return
	}
	header := w.Header()
	pages.HomeHeader(header, names.Home)
	h.bytes(w, r, body, sha256.Sum256(body), time.Time{})
}

// description serves the Source Description to a reader of private sets, which it names.
func (h *handler) description(w http.ResponseWriter, r *http.Request, v view) {
	if !h.opts.Current() {
		h.refuse(w, r, names.WellKnown, errNotCurrent)
		return
	}
	body, err := h.opts.Description(v)
	if err != nil {
		h.refuse(w, r, names.WellKnown, err)
		return
	}
	w.Header().Set("Content-Type", TypeOf(names.WellKnown))
	sum := sha256.Sum256(body)
	h.bytes(w, r, body, sum, h.modified.of(reader.Of(r.Context()).Name, v, sum, h.docs.Now()))
}

// bytes answers with what was made for this request. The time of modification may be
// unknown.
func (h *handler) bytes(w http.ResponseWriter, r *http.Request, body []byte, sum [sha256.Size]byte, mod time.Time) {
	header := w.Header()
	header.Set("ETag", `"`+hex.EncodeToString(sum[:16])+`"`)
	header["Cache-Control"] = revalidate
	negotiate.ServeContent(w, r, mod, bytes.NewReader(body))
}

// fail answers with an error status and a page that says what there is, and
// more links in its header.
func (h *handler) fail(w http.ResponseWriter, r *http.Request, status int, links ...string) {
	message := map[int]string{
		http.StatusUnauthorized:        "What is at this address, if anything, is for clients that show a credential of its readers.",
		http.StatusTooManyRequests:     "Too many credentials from your address were wrong. Try again later.",
		http.StatusServiceUnavailable:  "This cannot be answered just now. Try again later.",
		http.StatusNotFound:            "There is nothing at this address.",
		http.StatusForbidden:           "What is at this address cannot be read.",
		http.StatusMethodNotAllowed:    "Only GET and HEAD are possible here.",
		http.StatusInternalServerError: "This cannot be answered just now.",
	}[status]
	rel, ok := h.docs.Base.Locate(sentPath(r.URL))
	if !ok {
		rel = page.Outside
	}
	body, err := h.pages.Render(http.StatusText(status), message, rel)
	if err != nil {
		body = []byte(message) // unreachable: the template is executed by tests
	}
	header := w.Header()
	h.pages.Header(header, rel)
	header["Link"] = append(header["Link"], links...)
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client is gone
	}
}
