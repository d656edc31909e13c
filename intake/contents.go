package intake

import "context"

// A Content is the stored bytes of one version of a resource.
type Content struct {
	URI   string
	Hash  string // SHA-256 of Bytes, in hex, which identifies the version
	Bytes []byte
}

// Contents stores the bytes of resources that arrive together with their
// descriptions, as those of OAI-PMH records do, by set, URI and version.
//
// Every method is one transaction, durable when it returns, and safe for
// concurrent use. Slices passed in are not retained; returned slices belong to the
// caller. Dropping something that is not stored is not an error.
type Contents interface {
	// Put stores cs, in addition to other versions of the same resources.
	Put(ctx context.Context, set string, cs []Content) error

	// Get returns the bytes of a version; the error matches fs.ErrNotExist if it
	// is not stored.
	Get(ctx context.Context, set, uri, hash string) ([]byte, error)

	// Settle drops the versions of the resources of cs that are not among cs. The
	// Bytes of cs are ignored.
	Settle(ctx context.Context, set string, cs []Content) error

	// Drop drops all versions of resources.
	Drop(ctx context.Context, set string, uris []string) error

	// Clear drops everything stored for a set.
	Clear(ctx context.Context, set string) error
}
