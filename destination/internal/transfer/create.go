package transfer

import (
	"context"
	"mime"
	"net/http"

	"lockstep/blob"
	"lockstep/destination/internal/content"
)

// create begins the resource's file, with what is known of it before its bytes.
// Stores that send a large one on while it is written need that then.
func (t *transfer) create(ctx context.Context) (blob.Writer, error) {
	w, err := content.Create(ctx, t.Store, t.path)
	if err != nil {
		return nil, &content.LocalError{Err: err}
	}
	if !t.a.Lastmod.IsZero() {
		w.SetModTime(t.a.Lastmod.Time())
	}
	if typed, ok := w.(blob.Typed); ok {
		if mediaType := mediaTypeOf(t.a.Type, t.header); mediaType != "" {
			typed.SetType(mediaType)
		}
	}
	return w, nil
}

// mediaTypeOf returns the type that the Source states for a resource, or else that
// of an answer with this header, or "".
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
