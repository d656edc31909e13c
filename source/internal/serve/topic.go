package serve

import (
	"bytes"
	"context"
	"errors"
	"net/http"

	"lockstep/internal/negotiate"
	"lockstep/source/internal/notify"
)

// topic answers requests for a topic: with what is there, with 204 if that is
// nothing, or with the stream of events for those who ask for one.
func (h *handler) topic(w http.ResponseWriter, r *http.Request, rel string, v view) {
	c := h.opts.Channels.Find(rel)
	if c == nil {
		h.fail(w, r, http.StatusNotFound)
		return
	}
	header := w.Header()
	header.Set("Link", h.opts.Channels.Links(c))
	header["Cache-Control"] = revalidate
	header.Add("Vary", "Accept")
	if h.opts.Streams != nil && r.Method == http.MethodGet && notify.WantsEvents(r.Header["Accept"]) {
		h.events(w, r, c, v)
		return
	}
	t, ok := c.Topic()
	if !ok {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	header.Set("Content-Type", notify.MediaType)
	header.Set("ETag", `"`+t.Sum[:32]+`"`)
	negotiate.ServeContent(w, r, lastModified(t.Mod, h.docs.Now()), bytes.NewReader(t.Body))
}

// streamRetry is how many seconds a client that finds no place for its stream
// should wait.
const streamRetry = "5"

// events answers with the stream of a channel's events.
func (h *handler) events(w http.ResponseWriter, r *http.Request, c *notify.Channel, v view) {
	if len(v) > 0 {
		var stop context.CancelFunc
		r, stop = whileReader(r, c.SetName())
		defer stop()
	}
	switch err := h.opts.Streams.Serve(w, r, c); {
	case errors.Is(err, notify.ErrUnavailable):
		w.Header().Set("Retry-After", streamRetry)
		h.fail(w, r, http.StatusServiceUnavailable)
	case err != nil:
		h.refuse(w, r, c.Name, err)
	}
}
