package s3

import (
	"cmp"
	"context"
	"slices"
	"unicode/utf8"

	"github.com/minio/minio-go/v7"

	"lockstep/blob"
)

// listMore is the number of listed objects per requested one above which
// requesting each is cheaper.
const listMore = 10

// StatAll implements [blob.BatchStater]: it lists the part of the bucket that
// contains the names, a thousand objects with each request. The times are those at
// which the bucket stored the objects, as in List.
func (b *Bucket) StatAll(ctx context.Context, names []string, each func(i int, info blob.Info, err error)) error {
	order := make([]int, len(names))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, c int) int { return cmp.Compare(names[a], names[c]) })
	found := make([]blob.Info, len(names))
	known := 0 // names of order that the listing has already passed
	if len(names) >= listMore {
		var err error
		if known, err = b.listAmong(ctx, names, order, found); err != nil {
			return err
		}
	}
	listed := make([]bool, len(names))
	for _, i := range order[:known] {
		listed[i] = true
	}
	for i, name := range names {
		switch {
		case !listed[i]:
			info, err := b.Stat(ctx, name)
			if cerr := ctx.Err(); cerr != nil {
				return cerr
			}
			each(i, info, err)
		case found[i].Name == "":
			each(i, blob.Info{}, b.fail("stat", b.prefix+name, blob.ErrNotExist))
		default:
			each(i, found[i], nil)
		}
	}
	return ctx.Err()
}

// listAmong fills found with the listed objects among names, which order sorts,
// and returns how many of these, from the first on, are complete.
func (b *Bucket) listAmong(ctx context.Context, names []string, order []int, found []blob.Info) (known int, err error) {
	lctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lctx, pages := withPages(lctx)
	first := names[order[0]]
	_, last1 := utf8.DecodeLastRuneInString(first)
	o := minio.ListObjectsOptions{Prefix: b.prefix, Recursive: true, StartAfter: b.prefix + first[:len(first)-last1]}
	n, last := 0, ""
	for object := range b.core.ListObjectsIter(lctx, b.opts.Bucket, o) {
		if object.Err != nil {
			return 0, b.fail("list", b.prefix, object.Err)
		}
		pages.idle.Store(0)
		if object.Key <= last || len(object.Key) < len(b.prefix) {
			return 0, nil // the listing is not sorted: each name is requested
		}
		last = object.Key
		name := object.Key[len(b.prefix):]
		for known < len(order) && names[order[known]] < name {
			known++
		}
		if known == len(order) {
			return known, nil
		}
		for k := known; k < len(order) && names[order[k]] == name; k++ {
			found[order[k]] = blob.Info{Name: name, Size: object.Size, ModTime: object.LastModified, Version: object.ETag}
		}
		if n++; n > listMore*len(names)+1000 {
			return known, nil
		}
	}
	if err := ctx.Err(); err != nil {
		return 0, context.Cause(ctx)
	}
	return len(order), nil
}
