// Package vault keeps contents by what they are: each once, whoever has it under
// whatever name, and one that resembles another at the price of what differs.
//
//	d, size, err := v.Put(ctx, file, before) // durable when it returns
//	r, err := v.Open(ctx, d)                 // verified before a byte is handed out
//
// Contents are cut into chunks where their bytes say so. A content that is put
// with the one before it as its like keeps only the chunks that the other has
// not, in one blob, whose table names for each chunk the blob that has it: no
// chain of versions need be read to put one together. What nobody needs any more
// goes by [Vault.Sweep], which leaves of a blob the chunks others use.
//
// A content does not rely on what is damaged: a chunk that is there already is
// read and compared before it is used again, unless the store is to be trusted.
//
// A blob is written once, and replaced only by one that has all chunks which any
// other blob uses of it.
package vault

import (
	"context"
	"encoding/hex"
	"log/slog"
	"sync"

	"lockstep/blob"
)

// A Digest is the SHA-256 of a whole content, and its name in a [Vault].
type Digest [32]byte

// String returns d in hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// Options configures a [Vault]. The zero value is ready to use.
type Options struct {
	Compress bool         // with zstd, what gets smaller by it
	Trust    bool         // the store checks its bytes itself, and reading costs: what is put relies on chunks there are unread
	Logger   *slog.Logger // default: discards
}

// A Vault keeps contents in a [blob.Store] that is its own. All methods are safe
// for concurrent use. Only one process at a time may write to it.
type Vault struct {
	store blob.Store
	opts  Options
	pins  pins
	room  *room // for chunks of what is open

	sweep   chan struct{} // one may sweep at a time
	cleared bool          // what earlier processes left has been removed; who sweeps has it

	mu      sync.Mutex          // guards what follows
	damaged map[Digest]struct{} // blobs seen to be damaged
	marker  markerState
}

// New returns the vault in store.
func New(store blob.Store, o Options) *Vault {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Vault{store: store, opts: o, room: newRoom(roomBytes), sweep: make(chan struct{}, 1)}
}

// Has reports whether the vault has the content, and its size. It reads no
// content: see [Vault.Verify]. Of what is known to be damaged it says no, so that
// it is put again.
func (v *Vault) Has(ctx context.Context, d Digest) (size int64, ok bool, err error) {
	if err := v.settled(ctx, d); err != nil {
		return 0, false, err
	}
	t, _, err := v.find(ctx, d, false)
	if err != nil || t == nil {
		return 0, false, err
	}
	return t.size, true, nil
}

// Hold keeps every Sweep from what is Put or found by Has from now on, until
// release is called: from before it is put until it is written down who needs
// it.
func (v *Vault) Hold() (release func()) { return v.pins.hold() }
