package s3

import (
	"context"

	"golang.org/x/sync/errgroup"

	"lockstep/blob"
)

// tails is how many last parts are sent at a time.
const tails = 8

// Commit makes the blobs visible, one after the other. What remains to be sent
// of large ones is sent before the first appears, so that the names follow each
// other closely.
func (b *Bucket) Commit(ctx context.Context, ws ...blob.Writer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	batch, err := b.writers(ws)
	if err != nil {
		return err
	}
	if err := b.sendRest(ctx, batch); err != nil {
		return err
	}
	var ended []*upload
	for i, w := range batch {
		if w.upload == nil {
			err = b.put(ctx, w.key, w.buf.content(), w.attributes())
		} else if err = b.complete(ctx, w.upload); err == nil {
			ended = append(ended, w.upload)
		}
		if err != nil {
			err = &blob.CommitError{Done: i, Name: w.name, Err: err}
			break
		}
		w.close()
	}
	if len(ended) > 0 {
		// All that counts is done. A note that stays is found by Sweep.
		_ = b.ended(context.WithoutCancel(ctx), ended...)
	}
	return err
}

// sendRest sends what is left of the blobs that are too large for one request.
func (b *Bucket) sendRest(ctx context.Context, batch []*writer) error {
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
