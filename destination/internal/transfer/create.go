package transfer

import (
	"context"
	"io"
	"mime"
	"net/http"

	"lockstep/blob"
	"lockstep/destination/internal/content"
)

// Create opens the resource's file for writing, with the metadata known before all of its
// bytes have arrived: stores that upload a large file while it is being written need it at
// that time. It implements [content.Creator].
func (t *transfer) Create(ctx context.Context, whole bool) (io.Writer, error) {
	w, err := content.Create(ctx, t.Store, t.path, whole)
	if err != nil {
		return nil, &content.LocalError{Err: err}
	}
	exclude(t, w)
	if at := modified(t); !at.IsZero() {
		w.SetModTime(at)
	}
	if r, ok := w.(replacer); ok && t.a.IsHeld() && t.path == t.a.Held.Path {
		r.Replaces(t.a.Held.Tag)
	}
	if typed, ok := w.(blob.Typed); ok {
		if mediaType := mediaTypeOf(t.a.Type, t.header); mediaType != "" {
			typed.SetType(mediaType)
		}
	}
	t.w = w
	return w, nil
}

// exclude keeps w from replacing a file, if there was none.
func exclude(t *transfer, w blob.Writer) {
	if x, ok := w.(blob.Exclusive); ok && t.given {
		x.ExpectNone()
	}
}

// A replacer is a Writer of a store to which several processes write. It replaces only the
// version of the file that it is given.
type replacer interface{ Replaces(version string) }

// mediaTypeOf returns the media type that the Source states for a resource,
// otherwise that of a response with this header, or "".
func mediaTypeOf(stated string, header http.Header) string {
	for _, stated := range []string{stated, header.Get("Content-Type")} {
		base, params, err := mime.ParseMediaType(stated)
		if err != nil {
			continue // it would not be a valid header for another client either
		}
		return mime.FormatMediaType(base, params)
	}
	return ""
}
