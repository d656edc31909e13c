package destination

import (
	"context"
	"errors"
	"mime"

	"lockstep/blob"
	"lockstep/destination/internal/content"
)

// maxDown is how many resources in a row a remote store may reject before no
// more are offered: each has cost several tries.
const maxDown = 3

// isDown reports whether err says that the store accepts nothing at all, as far
// as one resource can show.
func isDown(err error) bool { return errors.Is(err, blob.ErrUnavailable) }

// create begins the resource's file, with what is known of it before its bytes.
// Stores that send a large one on while it is written need that then.
func (t *transfer) create(ctx context.Context) (blob.Writer, error) {
	w, err := content.Create(ctx, t.store, t.path)
	if err != nil {
		return nil, &content.LocalError{Err: err}
	}
	if !t.a.Lastmod.IsZero() {
		w.SetModTime(t.a.Lastmod.Time())
	}
	if typed, ok := w.(blob.Typed); ok {
		if mediaType := t.mediaType(); mediaType != "" {
			typed.SetType(mediaType)
		}
	}
	return w, nil
}

// mediaType is the type the Source states for the resource, or that of the
// answer, or "".
func (t *transfer) mediaType() string {
	for _, stated := range []string{t.a.Type, t.header.Get("Content-Type")} {
		base, params, err := mime.ParseMediaType(stated)
		if err != nil {
			continue // it would be no header for anybody else, either
		}
		return mime.FormatMediaType(base, params)
	}
	return ""
}
