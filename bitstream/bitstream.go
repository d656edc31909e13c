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
// ([patch.TypeJSON]). Of large representations only an index of their chunks is
// stored, from which the delta to the next version ([patch.TypeChunkDelta]) is made.
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
	"lockstep/internal/chunkdelta"
	"lockstep/memento"
	"lockstep/patch"
	"lockstep/resourcesync"
	"lockstep/vault"
)

// Options configures a [Keeper]. The zero value is ready to use.
type Options struct {
	Workers int           // representations read at once; default: the number of processors, at most 8
	Logger  *slog.Logger  // default: discards
	Vault   *vault.Vault  // the bytes of versions; required, like Index, if a set keeps versions
	Index   memento.Store // the index of versions
}

// SetOptions selects what is stored for a set.
type SetOptions struct {
	// Open opens the current representation of a resource; it returns
	// fs.ErrNotExist if that was deleted. Without Open nothing is stored.
	//
	// Its bytes may differ from the update. Then they are read again, and once they
	// were the same twice the update is corrected (Length, Hashes), and its Token
	// cleared, so that the next scan examines the resource again. If the resource
	// was deleted, keeps changing while it is read, or cannot be read or stored,
	// the update is applied unchanged; [Keeper.Open] then reports that the bytes do
	// not exist. A Change List must not wait for bytes that only a dump needs.
	Open func(ctx context.Context, r *catalog.Record) (io.ReadCloser, error)

	// Rescans means that the intake repeatedly compares the set with its origin by
	// Tokens, and so will offer again whatever was left out of an Apply. Then a
	// resource that was deleted or keeps changing is left out, unless it is offered
	// again unchanged: a file that existed only briefly causes no change in the
	// catalog.
	Rescans bool

	Past     bool            // store the bytes of every change that the catalog stores
	Patches  *PatchOptions   // make patches; nil: none
	Versions *VersionOptions // keep all versions, including the bytes of Past; nil: none
}

// PatchOptions configures a set's patches. For these the current bytes of every
// resource up to WholeBytes are stored, and the index of larger ones, which takes
// less than a hundredth of their size.
type PatchOptions struct {
	// Put publishes a patch and returns its address. The bytes at the address never
	// change; the change that will name it is not known yet.
	Put func(ctx context.Context, mediaType string, patch []byte) (href string, err error)

	MaxBytes   int64 // of a representation, old or new; default and maximum 1 GiB
	WholeBytes int64 // above it, patches are made from indexes; default 16 MiB, minimum 128 KiB
}

// defaultWholeBytes bounds the cost of making one patch from two representations in
// memory: about 150 MiB of memory and half a second.
const defaultWholeBytes = 16 << 20

// withDefaults returns p within its limits.
func (p PatchOptions) withDefaults() *PatchOptions {
	if p.MaxBytes <= 0 || p.MaxBytes > chunkdelta.MaxContent {
		p.MaxBytes = chunkdelta.MaxContent
	}
	if p.WholeBytes <= 0 {
		p.WholeBytes = defaultWholeBytes
	}
	p.WholeBytes = min(max(p.WholeBytes, smallBytes), p.MaxBytes)
	return &p
}

// isLarge reports whether patches of a representation are made from its index.
func (p *PatchOptions) isLarge(length int64) bool {
	return p != nil && length > p.WholeBytes && length <= p.MaxBytes
}

// A Keeper stores bytes in a blob.Store, each representation under its SHA-256, and
// each index under a name derived from it. All methods are safe for concurrent use. A store must not be used by anything
// but a single Keeper.
type Keeper struct {
	store  blob.Store
	opts   Options
	pins   pins
	deltas patch.Deltas
	large  chan struct{} // capacity 1: held while much memory is in use
	staged atomic.Int64  // representations written; shows Sweep whether there is anything new

	captured atomic.Int64 // versions stored
	damaged  atomic.Int64 // number of damaged reads

	mu   sync.Mutex           // guards sets
	sets map[string]*recorder // by name

	sweeping sync.Mutex // serializes Sweep; held across I/O on purpose
	swept    []mark     // the state at the last complete Sweep; guarded by sweeping
}

// New returns a Keeper that stores its bytes in store.
func New(store blob.Store, o Options) *Keeper {
	if o.Workers <= 0 {
		o.Workers = min(runtime.GOMAXPROCS(0), 8)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Keeper{store: store, opts: o, large: make(chan struct{}, 1), sets: make(map[string]*recorder)}
}

// Catalog wraps inner so that the bytes behind the changes of one set are
// stored; other sets pass through. The set's intake must apply its updates to
// the result, and only one such catalog per set may be in use. The set's first
// Mark should be taken there too: then no change after it is missed.
func (k *Keeper) Catalog(inner catalog.Catalog, set string, o SetOptions) catalog.Catalog {
	if o.Patches != nil {
		o.Patches = o.Patches.withDefaults()
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

// ErrDamaged reports stored bytes that no longer match their hash.
var ErrDamaged = errors.New("kept bytes are damaged")

// Open opens the representation that a change created: exactly the bytes of its
// hash, however often the resource has changed since. It returns fs.ErrNotExist
// if they were not stored, or were removed. The reader verifies the bytes: if
// the store is damaged, its last Read fails with [ErrDamaged].
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

// openKept opens the bytes of a change from the versions.
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

// open opens the bytes stored under d. If the length is known, bytes of another
// length count as missing.
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

// verified reads stored bytes and returns an error at their end if they do not
// match their hash.
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
