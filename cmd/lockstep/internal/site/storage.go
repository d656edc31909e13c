package site

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"

	"lockstep/bitstream"
	"lockstep/blob"
	"lockstep/blob/fence"
	"lockstep/blob/s3"
	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/contentplace"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/stateplace"
	"lockstep/cmd/lockstep/internal/versions"
	"lockstep/discover"
	"lockstep/internal/statedir"
)

// A storage is everything that a site stores.
type storage struct {
	db       *stateplace.Database
	docs     documentStore
	claim    *statedir.Claim // to the place of the documents
	versions *versions.Store
	keeper   *bitstream.Keeper // of the bytes of past representations; nil: no set needs them
}

// openStorage opens what a site stores. It gives onClose functions that close it.
func openStorage(ctx context.Context, o *Options, onClose func(func())) (*storage, error) {
	open := o.State.Open
	if o.isStandby() {
		open = func(ctx context.Context, _ string, _ *slog.Logger) (*stateplace.Database, error) {
			return o.State.OpenStandby(ctx)
		}
	}
	db, err := open(ctx, o.Command, o.Log)
	if err != nil {
		return nil, err
	}
	onClose(func() {
		if err := db.Close(); err != nil {
			o.Log.Warn("close catalog", slog.Any("err", err))
		}
	})
	st := &storage{db: db}
	if st.docs, err = openDocuments(ctx, o, db); err != nil {
		return nil, err
	}
	onClose(func() { _ = st.docs.Close() }) // everything written was committed before
	if st.claim, err = claimDocuments(ctx, st.docs, db.State, o); err != nil {
		return nil, err
	}
	if err := o.checkVersions(); err != nil {
		return nil, err
	}
	contents, err := openContents(ctx, o, db)
	if err != nil {
		return nil, err
	}
	if st.versions, err = versions.Open(ctx, contents, db.State.Notes, o.Sets, db.Versions); err != nil {
		return nil, err
	}
	onClose(st.versions.Close)
	bytes, err := contents.StoreIf(ctx, contentplace.Bitstreams, st.versions.Used() || slices.ContainsFunc(o.Sets, func(c config.Set) bool { return c.KeepsBytes() }))
	if err != nil || bytes == nil {
		return st, err
	}
	onClose(func() { _ = bytes.Close() }) // everything written was committed before
	st.keeper = bitstream.New(bytes, bitstream.Options{Logger: o.Log, Vault: st.versions.Vault(o.Log), Index: st.versions.Index()})
	return st, nil
}

// openContents opens the place of what the site keeps of contents.
func openContents(ctx context.Context, o *Options, db *stateplace.Database) (*contentplace.Place, error) {
	place := contentplace.Options{
		Address: o.Contents, StateDir: o.State.Dir, State: db.State, TakeOver: o.TakeOver, Client: o.bucketClient(), Standby: o.isStandby(),
	}
	if o.Shared != nil {
		place.Fence = func(base fence.Base) *fence.Store { return o.Shared.Fence(base, db) }
	}
	return contentplace.Open(ctx, place)
}

// documents returns the dependency on the store of the documents.
// standby fails before anything is published, because that is not for it to do.
func (st *storage) documents(standby bool) admin.Dependency {
	published := standby // calls of Rarely's check are made one at a time
	return admin.Dependency{Public: "the documents cannot be read", Check: admin.Rarely(func(ctx context.Context) error {
		_, err := st.docs.Stat(ctx, strings.TrimPrefix(discover.WellKnown, "/"))
		if errors.Is(err, blob.ErrNotExist) && !published {
			return nil // nothing is published yet
		}
		published = published || err == nil
		return err
	})}
}

// sweep removes the bytes of past representations that nothing uses any more.
func (st *storage) sweep(ctx context.Context) error {
	if st.keeper == nil {
		return nil
	}
	_, err := st.keeper.Sweep(ctx)
	return err
}

// openDocuments opens the store of a site's documents, whose state is locked, and
// removes the unfinished documents of a publication that was killed.
func openDocuments(ctx context.Context, o *Options, db *stateplace.Database) (documentStore, error) {
	docs, err := openDocumentStore(o)
	if err != nil {
		return nil, err
	}
	if docs, err = o.fenced(docs, db); err != nil || o.isStandby() {
		return docs, err
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

// A documentStore stores the documents of a site.
type documentStore interface {
	blob.Store
	blob.Sweeper
	io.Closer
}

// A bucketStore is a bucket as a documentStore.
type bucketStore struct{ *s3.Bucket }

// Close does nothing: a bucket holds nothing open.
func (bucketStore) Close() error { return nil }

func openDocumentStore(o *Options) (documentStore, error) {
	if mirror.IsBucket(o.Documents) {
		b, err := mirror.OpenBucket(o.Documents, o.bucketClient())
		return bucketStore{b}, err
	}
	return statedir.Documents(o.Documents, o.State.Dir)
}

// bucketClient returns how buckets of the site are reached.
func (o *Options) bucketClient() mirror.BucketClient {
	return mirror.BucketClient{LookupEnv: o.IO.LookupEnv, Network: o.Network, Log: o.Log}
}

// claimDocuments claims the place of the documents for the state of o. Documents
// in the state itself, which is locked, need no claim.
func claimDocuments(ctx context.Context, docs blob.Store, state statedir.State, o *Options) (*statedir.Claim, error) {
	if o.documentsInState() {
		return statedir.OwnClaim(state)
	}
	return statedir.NewClaim(ctx, docs, o.Documents, state, o.TakeOver)
}
