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

// A Digest is the SHA-256 of a whole content, and identifies it in a [Vault].
type Digest [32]byte

// String returns d in hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// Options configures a [Vault]. The zero value is ready to use.
type Options struct {
	Compress bool         // with zstd, chunks that become smaller
	Trust    bool         // the store verifies its bytes itself, and reading is expensive: new contents use existing chunks without reading them
	Shared   bool         // processes take turns in writing: a content that another one has written late is used only after a check of its sources
	Logger   *slog.Logger // default: discards
}

// A Vault stores contents in a [blob.Store] of its own. All methods are safe for
// concurrent use. Only one process at a time may write to it.
type Vault struct {
	store blob.Store
	opts  Options
	pins  pins
	room  *room // memory for chunks of open contents

	sweep   chan struct{} // held by the running sweep
	cleared bool          // unfinished blobs of earlier processes were removed; guarded by sweep

	mu      sync.Mutex          // guards what follows
	damaged map[Digest]struct{} // blobs known to be damaged
	marker  markerState
}

// New returns the vault in store.
func New(store blob.Store, o Options) *Vault {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Vault{store: store, opts: o, room: newRoom(roomBytes), sweep: make(chan struct{}, 1)}
}

// Has reports whether the vault has the content, and its size. It does not read
// the content: see [Vault.Verify]. It returns false for contents known to be
// damaged, so that they are put again.
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

// Hold prevents every Sweep from removing contents that are Put or found by Has
// from now on, until release is called: for use from before a content is put
// until it is recorded as needed.
func (v *Vault) Hold() (release func()) { return v.pins.hold() }
