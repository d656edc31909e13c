package s3

import (
	"context"
	"sync/atomic"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"lockstep/blob"
)

// tails is how many last parts are sent at a time.
const tails = 8

// Commit makes the blobs visible, one after the other. It sends the remaining
// parts of all large blobs before the first becomes visible, so that the blobs
// appear shortly after each other.
//
// With [Options.MayWrite] an object replaces only the one whose version the Writer got by
// its method Replaces, or none. If there is another one, it is looked at, MayWrite is called,
// and the object replaces that one. A process that may no longer write therefore cannot
// replace what its successor has written, however late its request arrives.
func (b *Bucket) Commit(ctx context.Context, ws ...blob.Writer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	batch, err := b.writers(ws)
	if err != nil {
		return err
	}
	if err := sendRest(ctx, batch); err != nil {
		return err
	}
	if b.opts.Parallel > 1 && distinct(batch) {
		err = appearAll(ctx, batch, b.opts.Parallel)
	} else {
		for i, w := range batch {
			if err = w.appear(ctx); err != nil {
				err = &blob.CommitError{Done: i, Name: w.name, Err: err}
				break
			}
		}
	}
	var ended []*upload
	for _, w := range batch {
		if !w.visible {
			break // the remaining Writers stay open
		}
		if w.upload != nil {
			ended = append(ended, w.upload)
		}
		w.close()
	}
	if len(ended) > 0 {
		// All blobs are visible. Sweep finds a note that remains.
		_ = b.ended(context.WithoutCancel(ctx), ended...)
	}
	return err
}

// distinct reports whether no two Writers have the same name: of those the last
// has to win.
func distinct(batch []*writer) bool {
	names := make(map[string]struct{}, len(batch))
	for _, w := range batch {
		names[w.name] = struct{}{}
	}
	return len(names) == len(batch)
}

// appear makes the blob visible.
func (w *writer) appear(ctx context.Context) (err error) {
	if w.visible {
		return nil
	}
	switch {
	case w.expected != nil:
		w.tag, err = w.expect(ctx)
	case w.b.opts.MayWrite != nil:
		err = w.replace(ctx)
	default:
		w.tag, err = w.store(ctx, nil)
	}
	w.visible = err == nil
	return err
}

// store stores the object, if it meets the condition; nil: always.
func (w *writer) store(ctx context.Context, only condition) (tag string, err error) {
	if w.upload == nil {
		o := w.attributes()
		only.add(&o)
		if w.mark != "" {
			o.UserMetadata[markKey] = w.mark
		}
		return w.b.put(ctx, w.key, w.buf.content(), o)
	}
	var o minio.PutObjectOptions
	only.add(&o)
	return w.b.complete(ctx, w.upload, o)
}

// appearAll makes blobs visible, several at a time. After an error it starts no
// more.
func appearAll(ctx context.Context, batch []*writer, parallel int) error {
	errs := make([]error, len(batch))
	var failed atomic.Bool
	var g errgroup.Group
	g.SetLimit(parallel)
	for i, w := range batch {
		if failed.Load() {
			break
		}
		g.Go(func() error {
			if errs[i] = w.appear(ctx); errs[i] != nil {
				failed.Store(true)
			}
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs
	for i, err := range errs {
		if err != nil { // all before it were started, and are visible
			return &blob.CommitError{Done: i, Name: batch[i].name, Err: err}
		}
	}
	return nil
}

// sendRest sends the remaining parts of blobs that are too large for one
// request.
func sendRest(ctx context.Context, batch []*writer) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(tails)
	for _, w := range batch {
		if w.upload == nil && w.broken == nil {
			continue
		}
		g.Go(func() error {
			if err := w.finish(gctx); err != nil {
				return &blob.CommitError{Name: w.name, Err: err}
			}
			return nil
		})
	}
	return g.Wait()
}
