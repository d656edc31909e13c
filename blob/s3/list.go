package s3

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"

	"lockstep/blob"
)

// List yields the blobs whose names begin with prefix, page by page as the
// service lists them: blobs committed or removed meanwhile may or may not be
// included. It skips objects whose keys are not valid names. ModTime is the
// time at which the bucket stored the object.
func (b *Bucket) List(ctx context.Context, prefix string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(blob.Info{}, err)
			return
		}
		if !validKey(b.prefix + prefix + "x") {
			return // no name begins like that
		}
		last := ""
		for info, err := range b.objects(ctx, b.prefix+prefix) {
			if err != nil {
				yield(blob.Info{}, err)
				return
			}
			key := info.Name
			if key <= last {
				yield(blob.Info{}, b.fail("list", b.prefix+prefix, fmt.Errorf("the service lists %q after %q: not in order", key, last)))
				return
			}
			last = key
			var ok bool
			if info.Name, ok = strings.CutPrefix(key, b.prefix); !ok || !strings.HasPrefix(info.Name, prefix) {
				yield(blob.Info{}, b.fail("list", b.prefix+prefix, fmt.Errorf("the service lists %q, which does not begin with what was asked for", key)))
				return
			}
			if !blob.ValidName(info.Name) || strings.HasPrefix(info.Name, notesDir) {
				continue
			}
			if !yield(info, nil) {
				return
			}
		}
	}
}

// objects yields the service's listing of a prefix of keys, in its order; Name
// is the key.
func (b *Bucket) objects(ctx context.Context, prefix string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		lctx, pages := withPages(ctx)
		for o := range b.core.ListObjectsIter(lctx, b.opts.Bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
			if o.Err != nil {
				yield(blob.Info{}, b.fail("list", prefix, o.Err))
				return
			}
			pages.idle.Store(0)
			if !yield(blob.Info{Name: o.Key, Size: o.Size, ModTime: o.LastModified, Version: o.ETag}, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil { // the listing ends without an error when ctx ends
			yield(blob.Info{}, b.fail("list", prefix, context.Cause(ctx)))
		}
	}
}

// Remove removes blobs, a thousand with each request.
func (b *Bucket) Remove(ctx context.Context, names ...string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var errs []error
	keys := make([]string, 0, len(names))
	for _, name := range names {
		key, err := b.key(name)
		switch {
		case err == nil:
			keys = append(keys, key)
		case !blob.ValidName(name): // blobs with other names cannot exist
			errs = append(errs, b.fail("remove", b.prefix+name, err))
		}
	}
	slices.Sort(keys)
	errs = append(errs, b.remove(ctx, slices.Compact(keys)))
	return joined(errs)
}

// removeMost bounds the number of errors of one Remove that are reported
// individually: when the request fails, all keys of a batch fail for the same
// reason.
const removeMost = 10

// remove removes the objects of keys that differ from each other.
func (b *Bucket) remove(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	if len(keys) == 1 {
		err := b.core.RemoveObject(ctx, b.opts.Bucket, keys[0], minio.RemoveObjectOptions{})
		if absent(err) {
			return nil
		}
		return b.fail("remove", keys[0], err)
	}
	objects := func(yield func(minio.ObjectInfo) bool) {
		for _, key := range keys {
			if !yield(minio.ObjectInfo{Key: key}) {
				return
			}
		}
	}
	results, err := b.core.RemoveObjectsWithIter(ctx, b.opts.Bucket, objects, minio.RemoveObjectsOptions{})
	if err != nil {
		return b.fail("remove", "", err)
	}
	var errs []error
	for r := range results {
		if r.Err != nil && !absent(r.Err) {
			errs = append(errs, b.fail("remove", r.ObjectName, r.Err))
		}
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	return joined(errs)
}

// joined joins errors; if there are very many, the first of them.
func joined(errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if more := len(errs) - removeMost; more > 0 {
		errs = append(errs[:removeMost], fmt.Errorf("and %d more", more))
	}
	return errors.Join(errs...)
}
