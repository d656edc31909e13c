package bitstream

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"lockstep/catalog"
	"lockstep/memento"
	"lockstep/vault"
)

// adoptEach is how many resources are examined before their versions are
// stored.
const adoptEach = 1000

// An Adoption is the result of an Adopt or a Withdraw.
type Adoption struct {
	Resources int64 // examined
	Changed   int64 // that got a version, or lost the link to one
	Missing   int64 // whose bytes are unavailable now
}

// Adopt stores a version of every resource of the set that has none because it
// existed before versions were stored. It reads all such resources; no change is
// numbered, unless a resource turns out to have changed. Adopt may be canceled and
// repeated, and run concurrently with all other methods. It calls onEach with its
// progress from time to time; onEach may be nil.
func (k *Keeper) Adopt(ctx context.Context, set string, onEach func(Adoption)) (Adoption, error) {
	r, err := k.recorderOf(set)
	if err != nil {
		return Adoption{}, err
	}
	if !r.opts.keepsVersions() {
		return Adoption{}, fmt.Errorf("set %s keeps no versions any more", set)
	}
	r.missing.Store(false) // before resources are examined: a change beside this may set it
	lacks := func(rec *catalog.Record) bool { _, ours := r.opts.Versions.linked(rec); return !ours }
	same := func(rec *catalog.Record) catalog.Update { return catalog.Update{Record: *rec} }
	var a Adoption
	if err = r.settle(ctx); err == nil {
		a, err = r.reapply(ctx, lacks, same, onEach)
	}
	if a.Missing > 0 || err != nil { // after an error the rest was not examined
		r.missing.Store(true)
	}
	return a, err
}

// Missing reports whether there may be resources whose version could not be
// stored, so that another Adopt may help.
func (k *Keeper) Missing(set string) bool {
	r, err := k.recorderOf(set)
	return err == nil && r.missing.Load()
}

// OfferAgain calls scan if changes of the set were left out because the vault did not
// accept their versions, and reports whether it did. scan has the intake offer them
// again by a full comparison; if it fails, the next OfferAgain calls it again.
func (k *Keeper) OfferAgain(set string, scan func() error) (called bool, err error) {
	r, err := k.recorderOf(set)
	if err != nil || !r.waits.Swap(false) { // before the scan, which may leave out changes once more
		return false, nil
	}
	if err = scan(); err != nil {
		r.waits.Store(true)
	}
	return true, err
}

// Withdraw removes the links to versions from the resources of the set; no
// change is numbered. Already published changes still name them.
func (k *Keeper) Withdraw(ctx context.Context, set string, onEach func(Adoption)) (Adoption, error) {
	r, err := k.recorderOf(set)
	if err != nil {
		return Adoption{}, err
	}
	has := func(rec *catalog.Record) bool { _, ours := r.opts.Versions.linked(rec); return ours }
	without := func(rec *catalog.Record) catalog.Update {
		u := catalog.Update{Record: *rec}
		u.Links = append(withoutMementos(rec.Links), catalog.NoMemento())
		return u
	}
	return r.reapply(ctx, has, without, onEach)
}

// reapply applies updates, made by update, to the resources that are due.
func (r *recorder) reapply(ctx context.Context, due func(*catalog.Record) bool, update func(*catalog.Record) catalog.Update, onEach func(Adoption)) (a Adoption, err error) {
	for from := ""; ; {
		var uris []string
		last := ""
		looked := 0
		for rec, err := range r.Catalog.Resources(ctx, r.set, catalog.Range{From: from}) {
			if err != nil {
				return a, err
			}
			last = rec.URI
			looked++
			if due(&rec) {
				uris = append(uris, rec.URI)
			}
			if len(uris) == adoptEach || looked == indexEach {
				break
			}
		}
		if looked == 0 {
			return a, nil
		}
		changed, err := r.applyDue(ctx, uris, due, update)
		if err != nil {
			return a, err
		}
		a.Resources += int64(looked)
		a.Changed += changed
		a.Missing += int64(len(uris)) - changed
		if onEach != nil {
			onEach(a)
		}
		from = after(last)
	}
}

// applyDue does so with some of them, in their current state, and returns how
// many are no longer due.
func (r *recorder) applyDue(ctx context.Context, uris []string, due func(*catalog.Record) bool, update func(*catalog.Record) catalog.Update) (done int64, err error) {
	if len(uris) == 0 {
		return 0, nil
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	var updates []catalog.Update
	now, err := r.stretch(ctx, uris)
	if err != nil {
		return 0, err
	}
	for _, uri := range uris {
		rec, err := r.find(ctx, &now, uri)
		if err != nil {
			return 0, err
		}
		if rec != nil && due(rec) {
			updates = append(updates, update(rec))
		}
	}
	if len(updates) > 0 {
		if _, err := r.applyOnce(ctx, updates); err != nil {
			return 0, err
		}
	}
	if now, err = r.stretch(ctx, uris); err != nil {
		return 0, err
	}
	for _, uri := range uris {
		rec, err := r.find(ctx, &now, uri)
		if err != nil {
			return 0, err
		}
		if rec == nil || !due(rec) {
			done++
		}
	}
	return done, nil
}

// Retain drops the versions of a set that the policy does not keep (ME-RET-01).
// Their bytes remain until a [Keeper.SweepVersions].
func (k *Keeper) Retain(ctx context.Context, set string, p memento.Policy) (memento.Retained, error) {
	r, err := k.recorderOf(set)
	if err != nil {
		return memento.Retained{}, err
	}
	kept, err := memento.Retain(ctx, k.opts.Index, set, p, r.opts.Versions.Now())
	if err != nil {
		err = fmt.Errorf("drop versions of %s: %w", set, err)
	}
	return kept, err
}

// dropEach is how many versions are dropped at once.
const dropEach = 1000

// DropVersions drops all versions of a set, which need not store versions now.
func (k *Keeper) DropVersions(ctx context.Context, set string) (n int64, err error) {
	var vs []memento.Version
	drop := func() error {
		if len(vs) == 0 {
			return nil
		}
		err := k.opts.Index.Drop(ctx, set, vs)
		n += int64(len(vs))
		vs = nil
		return err
	}
	for v, err := range k.opts.Index.Walk(ctx, set, "") {
		if err == nil {
			if vs = append(vs, v); len(vs) >= dropEach {
				err = drop()
			}
		}
		if err != nil {
			return n, fmt.Errorf("drop versions of %s: %w", set, err)
		}
	}
	if err := drop(); err != nil {
		return n, fmt.Errorf("drop versions of %s: %w", set, err)
	}
	return n, nil
}

// SweepVersions removes the bytes of versions that are not in the index. It may
// run concurrently with all other methods. All sets that keep versions, or did,
// must have been passed to [Keeper.Catalog] before.
func (k *Keeper) SweepVersions(ctx context.Context) (vault.Swept, error) {
	if k.opts.Vault == nil {
		return vault.Swept{}, nil
	}
	s, err := k.opts.Vault.Sweep(ctx, k.neededVersions)
	k.damaged.Add(s.Damaged)
	if err != nil {
		err = fmt.Errorf("sweep kept versions: %w", err)
	}
	return s, err
}

// neededVersions yields the digests of all versions.
func (k *Keeper) neededVersions(ctx context.Context) iter.Seq2[vault.Digest, error] {
	return func(yield func(vault.Digest, error) bool) {
		for _, r := range k.versioned() {
			for d, err := range r.neededVersions(ctx) {
				if !yield(d, err) || err != nil {
					return
				}
			}
		}
	}
}

// neededVersions yields those of the set: the versions in the index, and before it
// has any, those that the records name.
func (r *recorder) neededVersions(ctx context.Context) iter.Seq2[vault.Digest, error] {
	return func(yield func(vault.Digest, error) bool) {
		if err := r.settle(ctx); err != nil {
			yield(vault.Digest{}, err)
			return
		}
		begun, err := r.hasBegun(ctx)
		if err != nil {
			yield(vault.Digest{}, err)
			return
		}
		for v, err := range r.keeper.opts.Index.Walk(ctx, r.set, "") {
			if err != nil || !v.Gone {
				if !yield(vault.Digest(v.Digest), err) || err != nil {
					return
				}
			}
		}
		if begun {
			return
		}
		for rec, err := range r.Catalog.Resources(ctx, r.set, catalog.Range{}) {
			d, _ := digestOf(rec.Hashes)
			if _, ours := r.opts.Versions.linked(&rec); err != nil || ours {
				if !yield(vault.Digest(d), err) || err != nil {
					return
				}
			}
		}
	}
}

// versioned returns the sets that keep versions, or did.
func (k *Keeper) versioned() []*recorder {
	return slices.DeleteFunc(k.all(), func(r *recorder) bool { return r.opts.Versions == nil })
}

// Captured returns how many versions were stored since the Keeper was created.
func (k *Keeper) Captured() int64 { return k.captured.Load() }
