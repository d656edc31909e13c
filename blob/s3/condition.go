package s3

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/minio/minio-go/v7"

	"lockstep/blob"
)

// ErrUnconditional reports a service that replaces objects although the condition of the request
// is false.
var ErrUnconditional = errors.New("the service ignores conditions of write requests (If-Match, If-None-Match)")

// A condition is one of the service for storing an object. Nil is none.
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

// isConflict reports whether a condition was not met.
func isConflict(err error) bool {
	r, ok := errors.AsType[*Error](err)
	return ok && r.conflict
}

// expect stores the object in place of the version that is expected.
func (w *writer) expect(ctx context.Context) (tag string, err error) {
	if w.upload == nil { // an upload has a mark from its beginning
		w.mark = rand.Text()
	}
	tag, err = w.store(ctx, onlyOver(*w.expected))
	if isConflict(err) {
		return w.conflict(ctx, err)
	}
	return tag, err
}

// conflict returns the error of a write whose condition was false; or the entity tag, if that is
// because an earlier attempt had succeeded, and its answer was lost.
func (w *writer) conflict(ctx context.Context, err error) (tag string, _ error) {
	if w.upload == nil {
		there, herr := w.b.core.StatObject(ctx, w.b.opts.Bucket, w.key, minio.StatObjectOptions{})
		if herr == nil && there.Metadata.Get("X-Amz-Meta-"+markKey) == w.mark {
			return there.ETag, nil
		}
	}
	return "", &Error{Op: "put", Bucket: w.b.opts.Bucket, Key: w.key, Err: fmt.Errorf("%w: %w", blob.ErrConflict, err)}
}

// probeDir has the objects with which CheckConditions tries out a service.
const probeDir = ".lockstep/probe/"

// CheckConditions returns [ErrUnconditional] if the service does not honor the conditions of writes
// on which several writers depend, of small objects and of multipart uploads: it writes an object,
// tries to replace it under false conditions, and removes it.
func CheckConditions(ctx context.Context, b *Bucket) (err error) {
	name := probeDir + rand.Text()
	defer func() {
		if rerr := b.Remove(context.WithoutCancel(ctx), name); err == nil {
			err = rerr
		}
	}()
	const none, wrong = "", "00000000000000000000000000000000"
	first, err := probe(ctx, b, name, "1", none, false)
	if err != nil {
		return fmt.Errorf("write under a condition: %w", err)
	}
	for _, parts := range []bool{false, true} {
		for _, expected := range []string{none, wrong} {
			_, err := probe(ctx, b, name, "2", expected, parts)
			switch {
			case err == nil:
				return ErrUnconditional
			case !errors.Is(err, blob.ErrConflict):
				return fmt.Errorf("write under a false condition: %w", err)
			}
		}
	}
	second, err := probe(ctx, b, name, "3", first, false)
	if err == nil {
		_, err = probe(ctx, b, name, "4", second, true)
	}
	if err != nil {
		return fmt.Errorf("write under a true condition: %w", err)
	}
	return nil
}

// probe writes an object under a condition, in one request or as a multipart upload, and
// returns its entity tag.
func probe(ctx context.Context, b *Bucket, name, text, expected string, parts bool) (tag string, err error) {
	created, err := b.Create(ctx, name)
	if err != nil {
		return "", err
	}
	defer created.Close() // does nothing after Commit
	w := created.(*writer)
	w.Expect(expected)
	if _, err := w.Write([]byte(text)); err != nil {
		return "", err
	}
	if parts {
		if err := w.flush(); err != nil {
			return "", err
		}
	}
	if err := b.Commit(ctx, w); err != nil {
		return "", err
	}
	return w.tag, nil
}
