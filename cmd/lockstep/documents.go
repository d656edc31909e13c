package main

import (
	"context"
	"io"
	"log/slog"
	"slices"

	"lockstep/blob"
	"lockstep/blob/s3"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/internal/statedir"
)

// openDocuments opens the store of a site's documents, whose state is locked, and
// removes the unfinished documents of a publication that was killed.
func openDocuments(ctx context.Context, o siteOptions) (documentStore, error) {
	docs, err := openDocumentStore(o)
	if err != nil {
		return nil, err
	}
	n, err := docs.Sweep(ctx, slices.Values([]string{}))
	if err != nil {
		// Unfinished documents do no harm, and if the directory cannot be
		// written, publishing fails.
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
	return statedir.Documents(o.documents, o.state)
}

// claimDocuments claims the place of the documents for the state of o. Documents
// in the state itself, which is locked, need no claim.
func claimDocuments(ctx context.Context, docs blob.Store, o siteOptions) (*statedir.Claim, error) {
	if _, ours := statedir.Inside(o.state, o.documents); ours && !mirror.IsBucket(o.documents) {
		return &statedir.Claim{}, nil
	}
	return statedir.NewClaim(ctx, docs, o.documents, o.state, o.takeOver)
}
