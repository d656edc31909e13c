// Package contentplace opens the stores of contents that a Source keeps for versions, patches and Change
// Dumps: in its state directory, or at a place of its own, a directory or a bucket.
//
// What is kept there cannot be made again, and two Sources at one place would remove each other's
// contents: a place belongs to one state. A place that is configured instead of another one has to have what
// was kept there.
package contentplace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"lockstep/blob"
	"lockstep/blob/fence"
	"lockstep/blob/s3"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/internal/fetch"
	"lockstep/internal/handover"
	"lockstep/internal/statedir"
)

// The stores at a place.
const (
	Versions   = "versions"   // bytes of prior versions
	Bitstreams = "bitstreams" // bytes of past representations, and of those that patches are made from
)

// placeNote is the note of the state that names the place, if it is not in the state directory.
const placeNote = "contents.json"

// Options say where the contents of a Source are.
type Options struct {
	Address  string // of a directory or bucket; "": the state directory
	StateDir string
	State    statedir.State // locked
	TakeOver bool           // a place that belongs to another state is taken
	Client   mirror.BucketClient

	// Of a bucket that several processes share: Fence returns it as this process may write it.
	Fence   func(fence.Base) *fence.Store // nil: there is one process
	Standby bool                          // another process writes
}

// A Store is one of the stores at a place.
type Store interface {
	blob.Store
	io.Closer
}

// A Place is where the contents of a Source are.
type Place struct{ o Options }

// Open returns the place that o describes, which belongs to the state from now on. It refuses one that
// belongs to another state, or that lacks what was kept at the place before.
func Open(ctx context.Context, o Options) (*Place, error) {
	p := &Place{o}
	if o.Standby {
		return p, nil
	}
	var before struct {
		Place string `json:"place"`
	}
	if err := statedir.ReadJSON(o.State.Notes, placeNote, &before); err != nil {
		return nil, err
	}
	if o.Address == "" && before.Place == "" {
		return p, nil
	}
	address, err := p.address()
	if err != nil {
		return nil, err
	}
	if before.Place != address {
		if err := p.checkMove(ctx, before.Place); err != nil {
			return nil, err
		}
	}
	if err := p.claim(ctx); err != nil {
		return nil, err
	}
	if before.Place == address {
		return p, nil
	}
	before.Place = address
	if address == "" {
		return p, o.State.Notes.Save(placeNote, nil)
	}
	return p, statedir.WriteJSON(o.State.Notes, placeNote, before)
}

// Check rejects an address at or below that of documents, or of the resources of sets, which clients can read: the
// contents of private sets, and of resources that are no longer published, are there, too.
func Check(address, documents string, sets []config.Set) error {
	switch {
	case address == "":
		return nil
	case strings.Contains(address, "://") && !mirror.IsBucket(address):
		return term.Usagef("--contents %s: want a directory or s3://BUCKET/PREFIX", fetch.WithoutUser(address))
	}
	readable := []string{documents}
	for _, set := range sets {
		if place := cmp.Or(set.Origin.Dir(), set.Origin.String()); place == set.Origin.Dir() || mirror.IsBucket(place) {
			readable = append(readable, place)
		}
	}
	for _, place := range readable {
		if within(place, address) {
			return term.Usage(fmt.Errorf("the contents in %s would lie inside %s, which clients can read", address, place), "give --contents elsewhere, where only this Source reads and writes")
		}
	}
	return nil
}

// within reports whether a directory or a place in a bucket is another one, or below it.
func within(outer, inner string) bool {
	switch {
	case mirror.IsBucket(outer) && mirror.IsBucket(inner):
		return strings.TrimRight(outer, "/") == strings.TrimRight(inner, "/") || mirror.IsBelow(outer, inner)
	case mirror.IsBucket(outer) || mirror.IsBucket(inner):
		return false
	}
	_, ok := statedir.Inside(outer, inner)
	return ok
}

// address returns the address as it is noted.
func (p *Place) address() (string, error) {
	if p.o.Address == "" || mirror.IsBucket(p.o.Address) {
		return strings.TrimRight(p.o.Address, "/"), nil
	}
	return statedir.RealPath(p.o.Address)
}

// checkMove rejects a place that lacks something of what is where the contents were before.
func (p *Place) checkMove(ctx context.Context, before string) error {
	old := Place{p.o}
	old.o.Address = before
	there := before == ""
	if !there {
		mark, err := old.Has(ctx, ".lockstep/owner")
		there = err == nil && mark // else it is unreachable, or a disk is not mounted
	}
	lacks := !there
	for _, name := range []string{Versions, Bitstreams} {
		has, err := p.Has(ctx, name)
		if err != nil {
			return err
		}
		if !there {
			lacks = lacks && !has
		} else if kept, err := old.Has(ctx, name); err != nil {
			return err
		} else if kept && !has {
			lacks = true
		}
	}
	if !lacks {
		return nil
	}
	return &destination.RefusedError{
		Reason: fmt.Sprintf("what this Source has kept for versions, patches and Change Dumps is in %s, and not in %s", old, p),
		Hint:   fmt.Sprintf("copy the directories %s and %s, as far as they exist, from the former place to the latter first; or use the former one: %s", Versions, Bitstreams, old.option()),
	}
}

// String names the place, for people.
func (p Place) String() string {
	if p.o.Address == "" {
		return p.o.StateDir
	}
	return p.o.Address
}

// option says how the place is selected.
func (p Place) option() string {
	if p.o.Address == "" {
		return "leave --contents out"
	}
	return "--contents " + p.o.Address
}

// claim makes the place that of the state.
func (p *Place) claim(ctx context.Context) error {
	if p.o.Address == "" {
		return nil // it is locked
	}
	root, err := p.store("")
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // everything written was committed before
	claim, err := statedir.ClaimContents(ctx, root, p.o.Address, p.o.State, p.o.TakeOver)
	if err == nil {
		err = claim.Take(ctx)
	}
	return err
}

// IsShared reports whether several processes share the place.
func (p *Place) IsShared() bool { return p.o.Fence != nil }

// Trusted reports whether the place verifies its bytes, and reading there is expensive.
func (p *Place) Trusted() bool { return mirror.IsBucket(p.o.Address) }

// Has reports whether a store, or another directory of the place, has anything.
func (p *Place) Has(ctx context.Context, name string) (bool, error) {
	s, err := p.store(name)
	if err != nil {
		return false, err
	}
	defer func() { _ = s.Close() }() // nothing was written
	for _, err := range s.List(ctx, "") {
		if errors.Is(err, blob.ErrNotExist) {
			break
		}
		if err != nil {
			return false, fmt.Errorf("look for contents in %s: %w", p, err)
		}
		return true, nil
	}
	return false, nil
}

// Store opens one of the stores. The caller closes it.
func (p *Place) Store(ctx context.Context, name string) (Store, error) {
	s, err := p.store(name)
	if err == nil && p.IsShared() {
		s, err = p.share(ctx, s, name)
	}
	if err != nil {
		return nil, fmt.Errorf("open the store for contents: %w", err)
	}
	return s, nil
}

// StoreIf opens one of the stores if it is needed, or has something that was needed; otherwise it returns nil.
func (p *Place) StoreIf(ctx context.Context, name string, needed bool) (Store, error) {
	if !needed {
		if has, err := p.Has(ctx, name); err != nil || !has {
			return nil, err
		}
	}
	return p.Store(ctx, name)
}

var errUnconditional = errors.New("processes cannot share contents at this place")

// share returns a store as this process may use it.
func (p *Place) share(ctx context.Context, s Store, name string) (Store, error) {
	base, ok := s.(fence.Base)
	if !ok {
		return nil, errUnconditional
	}
	r := record{p.o.State.Notes, "contents-" + name + ".json"}
	if p.o.Standby {
		return handover.View(p.o.Fence(base), r)
	}
	return handover.Open(ctx, p.o.Fence(base), r)
}

// A record is a note of the state as a [handover.Record].
type record struct {
	notes statedir.Notes
	name  string
}

// Load implements [handover.Record].
func (r record) Load() ([]byte, error) { return r.notes.Load(r.name) }

// Save implements [handover.Record].
func (r record) Save(text []byte) error { return r.notes.Save(r.name, text) }

// A bucketStore is a part of a bucket as a Store.
type bucketStore struct{ *s3.Bucket }

// Close does nothing: a bucket holds nothing open.
func (bucketStore) Close() error { return nil }

// store opens a store; "": that of the whole place.
func (p *Place) store(name string) (Store, error) {
	if mirror.IsBucket(p.o.Address) {
		address := strings.TrimRight(p.o.Address, "/")
		if name != "" {
			address += "/" + name
		}
		b, err := mirror.OpenBucket(address, p.o.Client)
		return bucketStore{b}, err
	}
	dir := p.o.Address
	if dir == "" {
		dir = p.o.StateDir
	}
	return blob.NewDir(filepath.Join(dir, name), blob.DirOptions{Private: true})
}
