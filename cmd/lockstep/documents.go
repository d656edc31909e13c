package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"lockstep/blob"
	"lockstep/blob/s3"
	"lockstep/cmd/lockstep/internal/mirror"
)

// openDocuments opens the store of a site's documents, whose state is locked,
// and removes what a publication that was killed left unfinished there.
//
// Documents within the state are ours alone. Other directories we may share:
// with publications from another state, with a mirror that keeps unfinished
// downloads to go on with. There unfinished documents get a directory that is
// named for our state, so that nobody else's are ever removed.
func openDocuments(ctx context.Context, o siteOptions) (documentStore, error) {
	docs, err := openDocumentStore(o)
	if err != nil {
		return nil, err
	}
	n, err := docs.Sweep(ctx, slices.Values([]string{}))
	if err != nil {
		// Litter harms nobody, and if we cannot write there we shall see.
		o.log.WarnContext(ctx, "cannot remove unfinished documents", slog.Any("err", err))
	}
	if n > 0 {
		o.log.InfoContext(ctx, "removed unfinished documents", slog.Int("entries", n))
	}
	return docs, nil
}

// A documentStore keeps the documents of a site.
type documentStore interface {
	blob.Store
	blob.Sweeper
	io.Closer
}

// A bucketStore is a bucket as a documentStore.
type bucketStore struct{ *s3.Bucket }

// Close does nothing: there is nothing to give back.
func (bucketStore) Close() error { return nil }

func openDocumentStore(o siteOptions) (documentStore, error) {
	if mirror.IsBucket(o.documents) {
		b, err := mirror.OpenBucket(o.documents, o.io.LookupEnv)
		return bucketStore{b}, err
	}
	var do blob.DirOptions
	if _, ours := inside(o.state, o.documents); !ours {
		state, err := realPath(o.state)
		if err != nil {
			return nil, fmt.Errorf("find the state directory: %w", err)
		}
		sum := sha256.Sum256([]byte(state))
		do.Tmp = fmt.Sprintf(".lockstep/tmp-%x", sum[:4])
	}
	return blob.NewDir(o.documents, do)
}
