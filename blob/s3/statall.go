package s3

import (
	"cmp"
	"context"
	"slices"
	"unicode/utf8"

	"github.com/minio/minio-go/v7"

	"lockstep/blob"
)

// listMore is how many objects are listed for each one that is asked for, before
// asking for each is the cheaper way.
const listMore = 10

// StatAll implements [blob.BatchStater]: it lists the part of the bucket in which
// the names are, a thousand objects with each request. The times are those at which
// the bucket took the objects, as List has them.
func (b *Bucket) StatAll(ctx context.Context, names []string, each func(i int, info blob.Info, err error)) error {
	order := make([]int, len(names))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, c int) int { return cmp.Compare(names[a], names[c]) })
	found := make([]blob.Info, len(names))
	known := 0 // names of order about which the listing has said what there is
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

// listAmong fills found with what is listed of names, which order sorts, and
// returns for how many of these, from the first on, that is all there is.
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
			return 0, nil // not in order: each is asked for
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
