// Package bitstream stores the bytes of current and earlier representations by
// their hash, as far as a Source needs them.
//
// A catalog records that a resource changed, and the hash of its content; the next
// change overwrites the bytes themselves. Some documents need them later: a Change
// Dump contains the bytes of every change (RS-CDM-02), and a patch is made from two
// versions (RS-REL-30). A [Keeper] is placed between an intake and the catalog:
//
//	keeper := bitstream.New(store, bitstream.Options{})
//	cat := keeper.Catalog(inner, set, bitstream.SetOptions{Open: dir.Bitstream, Past: true})
//	… intake applies its updates to cat …
//	source.Set{…, Past: keeper.Open}
//	keeper.Sweep(ctx) // from time to time: removes bytes that are no longer needed
//
// Before a change is applied to the catalog, its bytes are read, hashed, and
// committed to the store under their SHA-256. If the process is killed between the
// two, bytes remain that a sweep removes, but there is never a change without its
// bytes. A file can change at any time, so that the bytes differ from what the
// update says: [SetOptions] describes how that is handled.
//
// With [VersionOptions] every version of a resource is kept: its bytes in a vault,
// in which similar versions take little room, and its time in an index, from which
// a TimeGate answers. Versions that published documents name are retained
// ([Keeper.Retain]).
//
// With [PatchOptions] updates also get links to patches, if these are much smaller
// than the new version: deltas ([patch.TypeDelta]) of any content, and JSON Patches
// ([patch.TypeJSON]).
package bitstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/memento"
	"lockstep/patch"
	"lockstep/resourcesync"
	"lockstep/vault"
)

// Options configures a [Keeper]. The zero value is ready to use.
type Options struct {
	Workers int           // representations read at once; default: as there are processors, at most 8
	Logger  *slog.Logger  // default: discards
	Vault   *vault.Vault  // the bytes of versions; needed where a set keeps some, as is Index
	Index   memento.Store // which versions there are
}

// SetOptions says what is kept of a set.
type SetOptions struct {
	// Open opens the present representation of a resource; it fails with
	// fs.ErrNotExist if it is gone. Without it nothing is kept.
	//
	// What it yields may differ from what the update says. Then it is read
	// again, and once it has been the same twice the update is corrected to it
	// (Length, Hashes), and its Token emptied, so that a scan looks again. What
	// is gone, or does not come to rest, is applied as the update says, and so is
	// what cannot be read or kept; then [Keeper.Open] will say that there is
	// nothing. A Change List must not wait for what a dump would like to have.
	Open func(ctx context.Context, r *catalog.Record) (io.ReadCloser, error)

	// Rescans says that what fills the set compares it with its origin again
	// and again, by Tokens, and so will offer once more whatever was left out of
	// an Apply. Then what is gone, or does not come to rest, is left out, unless
	// it is offered again just the same: no change is catalogued of a file that
	// only passed by.
	Rescans bool

	Past     bool            // keep the bytes of every change the catalog keeps
	Patches  *PatchOptions   // make patches; nil: none
	Versions *VersionOptions // keep all versions, whose bytes are those of Past, too; nil: none
}

// PatchOptions says how a set's patches are made. The present bytes of every
// resource up to MaxBytes are kept for it.
type PatchOptions struct {
	// Put publishes a patch and returns its address. The bytes under the address
	// never change; nothing is known yet of the change that will name it.
	Put func(ctx context.Context, mediaType string, patch []byte) (href string, err error)

	MaxBytes int64 // of a representation, old or new; default 16 MiB
}

// DefaultPatchBytes bounds what making one patch takes: about 150 MiB of memory
// and half a second.
const DefaultPatchBytes = 16 << 20

// A Keeper keeps bytes in a blob.Store, each representation under its SHA-256.
// All methods are safe for concurrent use. Only one Keeper may use a store, and
// nothing else may.
type Keeper struct {
	store  blob.Store
	opts   Options
	pins   pins
	deltas patch.Deltas
	large  chan struct{} // capacity 1: taken by who has much in memory
	staged atomic.Int64  // representations written, for Sweep to see that there is something new

	captured atomic.Int64 // versions kept
	damaged  atomic.Int64 // times one was found to be damaged

	mu   sync.Mutex           // guards sets
	sets map[string]*recorder // by name

	sweeping sync.Mutex // one Sweep at a time; held across IO, for that is its purpose
	swept    []mark     // what the last complete Sweep saw; guarded by sweeping
}

// New returns a Keeper that keeps its bytes in store.
func New(store blob.Store, o Options) *Keeper {
	if o.Workers <= 0 {
		o.Workers = min(runtime.GOMAXPROCS(0), 8)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Keeper{store: store, opts: o, large: make(chan struct{}, 1), sets: make(map[string]*recorder)}
}

// Catalog returns inner with the bytes behind the changes of one set kept; other
// sets pass through. Whatever fills the set must apply its updates to what is
// returned, and only one such catalog per set may be in use. Whoever takes the
// set's first Mark should do so there, too: then no change after it is missed.
func (k *Keeper) Catalog(inner catalog.Catalog, set string, o SetOptions) catalog.Catalog {
	if o.Patches != nil {
		p := *o.Patches
		if p.MaxBytes <= 0 {
			p.MaxBytes = DefaultPatchBytes
		}
		o.Patches = &p
	}
	if o.Versions != nil {
		v := *o.Versions
		v.Ending = v.Ending || o.Open == nil
		if v.Now == nil {
			v.Now = time.Now
		}
		o.Versions = &v
	}
	if o.Open == nil {
		o.Past, o.Patches = false, nil
	}
	r := &recorder{Catalog: inner, keeper: k, set: set, opts: o, turn: make(chan struct{}, 1), indexing: make(chan struct{}, 1)}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sets[set] = r
	return r
}

// ErrDamaged reports kept bytes that are no longer those of their hash.
var ErrDamaged = errors.New("kept bytes are damaged")

// Open opens the representation a change brought: the very bytes of its hash,
// however often the resource has changed since. It fails with fs.ErrNotExist if
// they were not kept, or no longer are. The reader verifies what it yields:
// should the store have been damaged, its last Read fails with [ErrDamaged].
func (k *Keeper) Open(ctx context.Context, c *catalog.Change) (io.ReadCloser, error) {
	d, ok := digestOf(c.Hashes)
	if !ok || c.Change == resourcesync.Deleted {
		return nil, notKept(c.URI)
	}
	r, err := k.open(ctx, d, c.Length)
	if errors.Is(err, blob.ErrNotExist) && k.opts.Vault != nil {
		return k.openKept(ctx, d, c)
	}
	if errors.Is(err, blob.ErrNotExist) {
		return nil, notKept(c.URI)
	}
	return r, err
}

// openKept opens what a change brought among the versions.
func (k *Keeper) openKept(ctx context.Context, d digest, c *catalog.Change) (io.ReadCloser, error) {
	r, err := k.opts.Vault.Open(ctx, vault.Digest(d))
	if errors.Is(err, fs.ErrNotExist) || err == nil && c.Length >= 0 && r.Size() != c.Length {
		if err == nil {
			_ = r.Close() // only read from
		}
		return nil, notKept(c.URI)
	}
	if err != nil {
		k.damage(err)
		return nil, fmt.Errorf("open kept bytes of %s: %w", c.URI, err)
	}
	return r, nil
}

func notKept(uri string) error {
	return fmt.Errorf("open kept bytes of %s: %w", uri, fs.ErrNotExist)
}

// open opens what is kept under d. What has another length than it should, if
// that is known, counts as not there.
func (k *Keeper) open(ctx context.Context, d digest, length int64) (*verified, error) {
	r, err := k.store.Open(ctx, d.name())
	if err != nil {
		return nil, err
	}
	if length >= 0 && r.Info().Size != length {
		_ = r.Close() // opened for reading only
		return nil, fmt.Errorf("%s: %d bytes, not %d: %w", d.name(), r.Info().Size, length, blob.ErrNotExist)
	}
	return &verified{Reader: r, want: d, hash: resourcesync.NewHasher(resourcesync.SHA256)}, nil
}

// verified reads kept bytes and says at their end if they are not what they
// should be.
type verified struct {
	blob.Reader
	want digest
	hash *resourcesync.Hasher
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.Reader.Read(p)
	_, _ = v.hash.Write(p[:n]) // never fails
	if errors.Is(err, io.EOF) {
		if d, _ := digestOf(v.hash.Sum()); d != v.want {
			return n, fmt.Errorf("%s: %w", v.want.name(), ErrDamaged)
		}
	}
	return n, err
}
