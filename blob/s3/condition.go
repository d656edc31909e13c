package s3

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"

	"lockstep/blob"
)

// ErrUnconditional reports a service that stores an object although the condition of the
// request is not met.
var ErrUnconditional = errors.New("the service ignores conditions of requests (If-None-Match, If-Match), without which several processes cannot write to one bucket")

// A condition is a condition of the service for storing an object. Nil is none.
type condition func(*minio.PutObjectOptions)

func (c condition) add(o *minio.PutObjectOptions) {
	if c != nil {
		c(o)
	}
}

// onlyOver is the condition that an object with the entity tag is replaced; "": none.
func onlyOver(tag string) condition {
	return func(o *minio.PutObjectOptions) {
		if tag == "" {
			o.SetMatchETagExcept("*")
		} else {
			o.SetMatchETag(tag)
		}
	}
}

// replaceTries is how often an object that has changed is looked at: only processes that
// have lost the right to write do that, and each of them at most once.
const replaceTries = 8

// replace stores the object over the one that is there. The order is what makes it safe: the
// object to be replaced is known before MayWrite is called, so that one that a successor
// writes, after this process has lost the right, does not meet the condition.
func (w *writer) replace(ctx context.Context) error {
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
		if !isConflict(err) && !(over != "" && errors.Is(err, blob.ErrNotExist)) || try == replaceTries {
			return err
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

// isConflict reports whether a condition was not met.
func isConflict(err error) bool {
	r, ok := errors.AsType[*Error](err)
	return ok && r.conflict
}

// look returns the entity tag of the object that is there, "" if there is none, and whether
// it is what w stores: an earlier attempt succeeded, and its answer was lost.
func (w *writer) look(ctx context.Context) (tag string, own bool, err error) {
	info, err := w.b.stat(ctx, w.key, minio.StatObjectOptions{})
	if missing(err) == blob.ErrNotExist {
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

// Conditions checks that the service stores an object only if it meets the condition of
// the request, with an object that it makes for that, and removes. The error of one that
// does not wraps [ErrUnconditional].
func (b *Bucket) Conditions(ctx context.Context) error {
	name := ".lockstep/conditions-" + rand.Text()
	key := b.prefix + name
	put := func(only condition) (string, error) {
		var o minio.PutObjectOptions
		only.add(&o)
		return b.put(ctx, key, content{strings.NewReader("1"), 1}, o)
	}
	inParts := func(only condition) (string, error) {
		u, err := b.begin(ctx, &writer{b: b, name: name, key: key})
		if err != nil {
			return "", err
		}
		if err = b.send(ctx, u, 1, content{strings.NewReader("2"), 1}); err == nil {
			_, err = b.complete(ctx, u, only)
		}
		return "", errors.Join(err, b.abort(context.WithoutCancel(ctx), u))
	}
	tag, err := put(onlyOver(""))
	if err != nil {
		return err
	}
	defer func() { _ = b.remove(context.WithoutCancel(ctx), []string{key}) }() // an object of a byte
	for _, store := range []func(condition) (string, error){put, inParts} {
		for _, only := range []condition{onlyOver(""), onlyOver("00000000000000000000000000000000")} {
			_, err := store(only)
			if err == nil {
				return fmt.Errorf("%s: %w", b, ErrUnconditional)
			}
			if !isConflict(err) {
				return err
			}
		}
	}
	_, err = put(onlyOver(strings.Trim(tag, `"`)))
	return err
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
