package site

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
func openDocuments(ctx context.Context, o Options) (documentStore, error) {
	docs, err := openDocumentStore(o)
	if err != nil {
		return nil, err
	}
	n, err := docs.Sweep(ctx, slices.Values([]string{}))
	if err != nil {
		// Unfinished documents do no harm, and if the directory cannot be
		// written, publishing fails.
		o.Log.WarnContext(ctx, "cannot remove unfinished documents", slog.Any("err", err))
	}
	if n > 0 {
		o.Log.InfoContext(ctx, "removed unfinished documents", slog.Int("entries", n))
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

func openDocumentStore(o Options) (documentStore, error) {
	if mirror.IsBucket(o.Documents) {
		b, err := mirror.OpenBucket(o.Documents, o.IO.LookupEnv)
		return bucketStore{b}, err
	}
	return statedir.Documents(o.Documents, o.State)
}

// claimDocuments claims the place of the documents for the state of o. Documents
// in the state itself, which is locked, need no claim.
func claimDocuments(ctx context.Context, docs blob.Store, o Options) (*statedir.Claim, error) {
	if _, ours := statedir.Inside(o.State, o.Documents); ours && !mirror.IsBucket(o.Documents) {
		return &statedir.Claim{}, nil
	}
	return statedir.NewClaim(ctx, docs, o.Documents, o.State, o.TakeOver)
}
