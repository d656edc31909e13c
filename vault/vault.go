// Package vault stores contents by their hash, each once, whatever names it has. A
// content that resembles another one takes only the room of the differences.
//
//	d, size, err := v.Put(ctx, file, before) // durable when it returns
//	r, err := v.Open(ctx, d)                 // verified before the first byte is returned
//
// Contents are cut into chunks at places that depend on their bytes. If Put is given
// the content before, it stores only chunks that the other content lacks, in one
// blob. The table of that blob names the blob that contains each chunk, so that no
// chain of versions has to be read to assemble a content. [Vault.Sweep] removes
// contents that are no longer needed, except for chunks that others use.
//
// A stored chunk is read and compared before another content relies on it, unless
// the store is to be trusted.
//
// A blob is written once. It is replaced only by a blob that has all of its chunks
// that other blobs use.
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
