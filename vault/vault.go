// Package vault keeps contents by what they are: each once, whoever has it
// under whatever name.
package vault

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"

	"lockstep/blob"
)

// A Digest is the SHA-256 of a whole content, and its name in a [Vault].
type Digest [32]byte

// String returns d in hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// Options configures a [Vault]. The zero value is ready to use.
type Options struct {
	Compress bool         // with zstd, what gets smaller by it
	Logger   *slog.Logger // default: discards
}

// A Vault keeps contents in a [blob.Store] that is its own. All methods are safe
// for concurrent use. Only one process at a time may write to it.
type Vault struct {
	store blob.Store
	opts  Options
}

// New returns the vault in store.
func New(store blob.Store, o Options) *Vault {
	return &Vault{store: store, opts: o}
}

var errUnfinished = errors.New("not finished")

// Put keeps what r yields and returns its digest and size; it is durable then.
// What is there already is not kept twice. like are contents it may resemble,
// the version before it say; those the vault does not have are passed over.
func (v *Vault) Put(ctx context.Context, r io.Reader, like ...Digest) (Digest, int64, error) {
	s, err := v.Stage(ctx, r, like...)
	if err != nil {
		return Digest{}, 0, err
	}
	defer s.Close()
	return s.Digest(), s.Size(), v.Commit(ctx, s)
}

// A Staged is a content that is written and not yet kept: see [Vault.Commit].
type Staged struct {
	digest Digest
	size   int64
}

// Digest returns the digest of the content.
func (s *Staged) Digest() Digest { return s.digest }

// Size returns its length in bytes.
func (s *Staged) Size() int64 { return s.size }

// Close drops the content, unless it has been committed.
func (s *Staged) Close() error { return nil }

// Stage writes what r yields, as Put does, but leaves it to Commit to make it
// last: many that are staged are committed at the price of one. Contents that
// are only staged are no help as like.
func (v *Vault) Stage(ctx context.Context, r io.Reader, like ...Digest) (*Staged, error) {
	return nil, errUnfinished
}

// Commit makes all that is staged durable. After an error some may be kept; what
// is not stays staged.
func (v *Vault) Commit(ctx context.Context, staged ...*Staged) error { return errUnfinished }

// Has reports whether the vault has the content, and its size. It reads no
// content: see [Vault.Verify].
func (v *Vault) Has(ctx context.Context, d Digest) (size int64, ok bool, err error) {
	return 0, false, errUnfinished
}

// A Reader reads one content. ReadAt may be called by several goroutines; Read
// and Seek by one.
type Reader struct{ size int64 }

// Open opens a content, or fails with [fs.ErrNotExist]. What it yields is right:
// of what is damaged no byte is handed out, but a *[DamagedError].
func (v *Vault) Open(ctx context.Context, d Digest) (*Reader, error) { return nil, errUnfinished }

// Size returns the length of the content in bytes.
func (r *Reader) Size() int64 { return r.size }

func (r *Reader) Read(p []byte) (int, error)                { return 0, errUnfinished }
func (r *Reader) ReadAt(p []byte, off int64) (int, error)   { return 0, errUnfinished }
func (r *Reader) Seek(off int64, whence int) (int64, error) { return 0, errUnfinished }
func (r *Reader) Close() error                              { return nil }

// A DamagedError reports a content that is no longer what it was.
type DamagedError struct {
	Digest Digest // the content that was asked for
	Blob   string // the name of the blob that is damaged, or missing
	Err    error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("content %s is damaged in %s: %v", e.Digest, e.Blob, e.Err)
}

func (e *DamagedError) Unwrap() error { return e.Err }

// Verify reads all of a content and fails with a *[DamagedError] where it is
// damaged, with [fs.ErrNotExist] where the vault does not have it.
func (v *Vault) Verify(ctx context.Context, d Digest) error { return errUnfinished }

// Hold keeps every Sweep from what is Put or found by Has from now on, until
// release is called: from before it is put until it is written down who needs
// it.
func (v *Vault) Hold() (release func()) { return func() {} }

// Swept counts what a Sweep came to.
type Swept struct {
	Kept      int64 // contents that are needed
	Removed   int64 // blobs that nobody needs any more
	Rewritten int64 // blobs of which only parts are still used, by others
	Bytes     int64 // that the store needs less
	Damaged   int64 // needed contents that cannot be read
}

// Sweep removes what nobody needs. needed yields the contents that are; it may
// be called once or more often and may yield one more than once. What was Put or
// found by Has since the Sweep began, or under a [Vault.Hold], stays. After an
// error nothing that is needed has been removed.
func (v *Vault) Sweep(ctx context.Context, needed func(context.Context) iter.Seq2[Digest, error]) (Swept, error) {
	return Swept{}, errUnfinished
}
