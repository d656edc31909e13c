package memento

import (
	"net/http"
	"time"
)

// timeGate redirects to the version of the resource uri that was current at the
// requested instant (ME-TG-02, ME-TG-05).
func (h *Handler) timeGate(w http.ResponseWriter, r *http.Request, uri string) {
	header := w.Header()
	header.Set("Vary", "accept-datetime") // ME-TG-01
	header.Set("Cache-Control", "no-cache")
	at, asked, err := wanted(r)
	if err != nil {
		h.fail(w, http.StatusBadRequest, "Accept-Datetime: %v", err) // ME-HD-02
		return
	}
	uri, a, err := h.known(r.Context(), uri, at)
	if err != nil {
		h.broken(w, r, uri, err)
		return
	}
	header.Set("Link", h.links(uri, &a))
	v := a.Selected
	switch {
	case !a.Known:
		h.fail(w, http.StatusNotFound, "of %s no version is known", escape(uri)) // ME-TG-07
		return
	case a.First.IsZero():
		h.fail(w, http.StatusNotFound, "of %s no version is kept", escape(uri))
		return
	case !asked:
		v = a.Last // ME-TG-04
	case v.IsZero():
		v = a.First // ME-TG-04
	case v.Gone && h.opts.Earlier && !a.Prev.IsZero():
		v = a.Prev
	case v.Gone && v.Length < 0:
		h.fail(w, http.StatusNotFound, "of %s the version of %s was not kept", escape(uri), FormatDatetime(at))
		return
	case v.Gone: // ME-DEL-01
		h.fail(w, http.StatusNotFound, "%s was deleted at %s, and not there at %s", escape(uri), FormatDatetime(v.At), FormatDatetime(at))
		return
	}
	if !v.At.Equal(a.Selected.At) {
		if a, err = h.store.Around(r.Context(), uri, v.At); err == nil {
			err = h.exactly(r.Context(), uri, v.At, &a)
		}
		if err != nil {
			h.broken(w, r, uri, err)
			return
		}
		header.Set("Link", h.links(uri, &a))
	}
	memento := h.opts.Base.Memento(uri, v.At)
	header.Set("Location", memento)
	header.Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusFound)
	_, _ = w.Write([]byte(memento + "\n")) // the client may have disconnected
}

// wanted returns the requested instant; the zero time if none is requested.
func wanted(r *http.Request) (at time.Time, asked bool, err error) {
	values := r.Header.Values("Accept-Datetime")
	if len(values) == 0 {
		return time.Time{}, false, nil
	}
	value := values[0]
	for _, other := range values[1:] {
		value += ", " + other // ME-HD-01: exactly one
	}
	at, err = ParseDatetime(value)
	if at.IsZero() && err == nil {
		at = at.Add(time.Second) // a Store interprets the zero time as the end of time
	}
	return at, true, err
}
