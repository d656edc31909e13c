package serve

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"time"

	"lockstep/source/internal/names"
	"lockstep/source/internal/page"
)

// home serves the page at the base URL, for those who come with a browser.
func (h *handler) home(w http.ResponseWriter, r *http.Request) {
	body, err := h.pages.Render("A ResourceSync Source", "", names.Home)
	if err != nil {
		h.refuse(w, r, "home page", err)
		return
	}
	header := w.Header()
	h.pages.Header(header, names.Home)
	sum := sha256.Sum256(body)
	header.Set("ETag", `"`+hex.EncodeToString(sum[:16])+`"`)
	header["Cache-Control"] = revalidate
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

// fail answers with an error status and a page that says what there is, and
// more links in its header.
func (h *handler) fail(w http.ResponseWriter, r *http.Request, status int, links ...string) {
	message := map[int]string{
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
