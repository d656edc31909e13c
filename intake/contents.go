package intake

import "context"

// A Content is the bytes of one version of a resource, kept for those who ask.
type Content struct {
	URI   string
	Hash  string // SHA-256 of Bytes, in hex: which version it is
	Bytes []byte
}

// Contents keeps the bytes of resources that come with what lists them, as those
// of OAI-PMH records do, by set, URI and version.
//
// Every method is one transaction, durable when it returns, and safe for
// concurrent use. Slices handed in are not kept; those handed out are the
// caller's. What is not there is dropped without error.
type Contents interface {
	// Put keeps cs, beside other versions of the same resources.
	Put(ctx context.Context, set string, cs []Content) error

	// Get returns the bytes of a version; the error matches fs.ErrNotExist if it
	// is not kept.
	Get(ctx context.Context, set, uri, hash string) ([]byte, error)

	// Settle drops the versions of the resources of cs that are not among cs,
	// whose Bytes do not count.
	Settle(ctx context.Context, set string, cs []Content) error

	// Drop drops all versions of resources.
	Drop(ctx context.Context, set string, uris []string) error

	// Clear drops all there is of a set.
	Clear(ctx context.Context, set string) error
}
