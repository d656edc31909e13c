package s3

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"

	"lockstep/blob"
)

// Objects yields the objects below the prefix as the service lists them: Name is
// the key without the prefix, any bytes; Version the entity tag without its
// quotes. The listing is neither filtered, sorted nor deduplicated. If it ends
// early, the last value is the error.
func (b *Bucket) Objects(ctx context.Context) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		for info, err := range b.objects(ctx, b.prefix) {
			if err == nil {
				var ok bool
				if info.Name, ok = strings.CutPrefix(info.Name, b.prefix); !ok {
					err = b.fail("list", b.prefix, errors.New("the service lists a key that does not begin with what was asked for: "+printable(info.Name)))
				}
			}
			if err != nil {
				yield(blob.Info{}, err)
				return
			}
			if strings.HasPrefix(info.Name, notesDir) {
				continue
			}
			if !yield(info, nil) {
				return
			}
		}
	}
}

// Head returns the header of the object with a key, with checksums if the
// service stores some, or [blob.ErrNotExist].
func (b *Bucket) Head(ctx context.Context, key string) (http.Header, error) {
	key = b.prefix + key
	o, err := b.stat(ctx, key, minio.StatObjectOptions{Checksum: true})
	if err != nil {
		return nil, b.fail("head", key, missing(err))
	}
	return o.Headers, nil
}

// Get opens the current version of the object with a key, and also returns its
// header. It returns [blob.ErrNotExist] if there is none. If the body is
// truncated, the last Read fails.
func (b *Bucket) Get(ctx context.Context, key string) (io.ReadCloser, http.Header, error) {
	key = b.prefix + key
	body, _, header, err := b.core.GetObject(ctx, b.opts.Bucket, key, minio.GetObjectOptions{Checksum: true})
	if err != nil {
		return nil, nil, b.fail("get", key, missing(err))
	}
	return body, header, nil
}
