package repository

import (
	"compress/gzip"
	"context"
	"errors"
	"log/slog"
	"net/http"

	"lockstep/internal/hangup"
	"lockstep/internal/negotiate"
	"lockstep/oaipmh"
)

// A response writes the response to one request.
type response struct {
	rw      http.ResponseWriter
	request *http.Request
	vary    string // the headers of the request that it depends on
	log     *slog.Logger
	out     *oaipmh.Writer // nil before begin
	shut    func() error   // closes the compressor between out and rw
}

// begin creates the writers of a response with the header head. Nothing is sent yet.
func (w *response) begin(head oaipmh.Header) {
	h := w.rw.Header()
	h.Set("Content-Type", "text/xml; charset=utf-8") // OAI-PMH 2.0, 3.1.2.1
	h.Set("Vary", w.vary)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox") // records have what others have written
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-cache")
	}
	if !negotiate.Gzip(w.request.Header["Accept-Encoding"]) {
		w.out, w.shut = oaipmh.NewWriter(w.rw, head, oaipmh.Second), func() error { return nil }
		return
	}
	h.Set("Content-Encoding", "gzip")
	zip, _ := gzip.NewWriterLevel(w.rw, gzip.BestSpeed) // the level is valid
	w.out, w.shut = oaipmh.NewWriter(zip, head, oaipmh.Second), zip.Close
}

// end finishes the response.
func (w *response) end() error {
	if err := w.out.Close(); err != nil {
		return err
	}
	return w.shut()
}

// notModified answers 304 if the client already has the response with this tag.
func (w *response) notModified(tag string) bool {
	w.rw.Header().Set("ETag", tag)
	if !negotiate.Has(w.request.Header["If-None-Match"], tag) {
		return false
	}
	w.rw.Header().Set("Cache-Control", "no-cache")
	w.rw.Header().Set("Vary", w.vary)
	w.rw.WriteHeader(http.StatusNotModified)
	return true
}

// refuse answers a protocol error.
func (w *response) refuse(head oaipmh.Header, e *oaipmh.Error) {
	w.rw.Header().Del("ETag")
	w.rw.Header().Set("Cache-Control", "no-store")
	w.begin(head)
	err := w.out.Error(e)
	if err == nil {
		err = w.end()
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the client has disconnected
	}
}

// fail answers an error: of the protocol, of this server, or that the client is gone.
func (w *response) fail(ctx context.Context, head oaipmh.Header, err error) {
	begun := w.out != nil && w.out.Begun()
	if e, ok := errors.AsType[*oaipmh.Error](err); ok && !begun {
		w.refuse(head, e)
		return
	}
	verb := slog.String("verb", string(head.Request.Verb))
	if gone := hangup.Is(ctx, err); gone || begun {
		if !gone {
			w.log.ErrorContext(ctx, "cannot answer a harvester", verb, slog.Any("err", err))
		}
		panic(http.ErrAbortHandler) // no client may consider the response complete
	}
	h := w.rw.Header()
	h.Del("Content-Encoding")
	h.Del("ETag")
	h.Set("Cache-Control", "no-store")
	unreadable := errors.Is(err, errUnreadable)
	if unreadable {
		w.log.WarnContext(ctx, "cannot answer a harvester", verb, slog.Any("err", err))
	}
	if unreadable || errors.Is(err, errBusy) || errors.Is(err, ErrNotPublished) {
		h.Set("Retry-After", retry) // OAI-PMH 2.0, 3.1.2.2
		http.Error(w.rw, "The records are being looked through. Come again soon.", http.StatusServiceUnavailable)
		return
	}
	w.log.ErrorContext(ctx, "cannot answer a harvester", verb, slog.Any("err", err))
	http.Error(w.rw, "This cannot be answered just now.", http.StatusInternalServerError)
}
