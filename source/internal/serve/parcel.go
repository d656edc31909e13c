package serve

import (
	"net/http"
	"strconv"

	"lockstep/blob"
	"lockstep/internal/negotiate"
)

// parcel serves a package. Nothing is read ahead: its name identifies its
// bytes, and size and time distinguish what a lost state might have made of it.
func (h *handler) parcel(w http.ResponseWriter, r *http.Request, name string) {
	doc, err := h.docs.Open(r.Context(), name)
	if err != nil {
		h.refuse(w, r, name, err)
		return
	}
	defer doc.Close() // opened for reading only
	header := w.Header()
	typ, caching := Attributes(name)
	header.Set("Content-Type", typ)
	header.Set("Cache-Control", caching)
	header.Set("ETag", packageTag(doc.Info()))
	negotiate.ServeContent(w, r, lastModified(doc.Info().ModTime, h.docs.Now()), doc)
}

// packageTag returns the strong entity tag of a package.
func packageTag(info blob.Info) string {
	return `"` + strconv.FormatInt(info.Size, 36) + "-" + strconv.FormatInt(info.ModTime.UnixNano(), 36) + `"`
}
