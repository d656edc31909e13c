package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"

	"lockstep/blob"
)

// replaceTries is how often an object that has changed is looked at: only processes that
// have lost the right to write do that, and each of them at most once.
const replaceTries = 8

// replace stores the object over the one that is there. The order is what makes it safe: the
// object to be replaced is known before MayWrite is called, so that one that a successor
// writes, after this process has lost the right, does not meet the condition.
func (w *writer) replace(ctx context.Context) error {
	if w.refused != nil {
		return w.refused
	}
	over := w.replaces
	for try := 1; ; try++ {
		if err := w.b.opts.MayWrite(); err != nil {
			return err
		}
		tag, err := w.store(ctx, onlyOver(over))
		if err == nil {
			w.tag = tag
			return nil
		}
		if !isConflict(err) && !(over != "" && errors.Is(err, blob.ErrNotExist)) {
			return err
		}
		if try == replaceTries {
			w.refused = fmt.Errorf("the service refuses each condition, also that of the object it reports: %w", err)
			return w.refused
		}
		there, own, lerr := w.look(ctx)
		if lerr != nil {
			return lerr
		}
		if own {
			w.tag = there
			return nil
		}
		over = there
	}
}

// look returns the entity tag of the object that is there, "" if there is none, and whether
// it is what w stores: an earlier attempt succeeded, and its answer was lost.
func (w *writer) look(ctx context.Context) (tag string, own bool, err error) {
	info, err := w.b.stat(ctx, w.key, minio.StatObjectOptions{})
	if errors.Is(missing(err), blob.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, w.b.fail("head", w.key, err)
	}
	tag = strings.Trim(info.ETag, `"`)
	if w.upload != nil {
		return tag, info.Headers.Get("X-Amz-Meta-"+markKey) == w.upload.mark, nil
	}
	sum, err := w.buf.content().md5()
	if err != nil {
		return "", false, w.b.fail("read", w.key, err)
	}
	o := w.attributes()
	same := tag == sum && info.Headers.Get("X-Amz-Meta-Mtime") == o.UserMetadata["Mtime"] && (o.ContentType == "" || info.ContentType == o.ContentType)
	return tag, same, nil
}

// A permit sends requests that change something only while that is permitted.
type permit struct {
	next     http.RoundTripper
	mayWrite func() error
}

func permitted(next http.RoundTripper, mayWrite func() error) http.RoundTripper {
	if mayWrite == nil {
		return next
	}
	return permit{next, mayWrite}
}

func (p permit) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return p.next.RoundTrip(r)
	}
	if err := p.mayWrite(); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // nothing was read of it
		}
		return nil, err
	}
	if r.Body != nil && r.Body != http.NoBody {
		r = r.Clone(r.Context())
		r.Body = permittedBody{r.Body, p.mayWrite}
	}
	return p.next.RoundTrip(r)
}

// A permittedBody ends when it is not permitted any more: the request then is incomplete,
// and has no effect.
type permittedBody struct {
	io.ReadCloser
	mayWrite func() error
}

func (b permittedBody) Read(p []byte) (int, error) {
	if err := b.mayWrite(); err != nil {
		return 0, err
	}
	return b.ReadCloser.Read(p)
}
