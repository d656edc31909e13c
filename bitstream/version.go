package bitstream

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"lockstep/catalog"
	"lockstep/memento"
	"lockstep/resourcesync"
	"lockstep/vault"
)

// VersionOptions stores every version of every resource of a set: its bytes in
// [Options.Vault], and its time and properties in [Options.Index].
//
// The bytes are durable before the change that brings them is applied, and its
// record names them by a memento link (ME-RS-02). Apply returns only when the
// index is complete, and so do Status, Mark and Changes: published documents of
// the set name no version that is unavailable. An Apply in which a resource is
// deleted and put again is applied in several steps.
//
// An update whose bytes cannot be read is applied without a link, as described for
// [SetOptions.Open]; the index then records that there was a version which was not
// stored. If the vault or the index cannot be written, Apply fails, and nothing is
// applied; for a set with Rescans, only changes that the vault does not accept are
// left out, until it does.
type VersionOptions struct {
	Base memento.Base // base of the versions' addresses

	// Ending means that no more versions are stored. Changes of resources with
	// versions are still recorded: no client may take an old version for the
	// current one.
	Ending bool

	Now func() time.Time // default time.Now
}

// keepsVersions reports whether the bytes of new versions are stored.
func (o *SetOptions) keepsVersions() bool { return o.Versions != nil && !o.Versions.Ending }

// microsecond is the minimum difference between versions of one resource.
const microsecond = time.Microsecond

// versionTime returns the datetime of a version: its last modification, if that
// is after the previous version and not in the future; else now; and if the clock
// went back, the next instant after the previous version.
func versionTime(lastmod, before, now time.Time) time.Time {
	now, lastmod = now.UTC().Truncate(microsecond), lastmod.UTC().Truncate(microsecond)
	switch {
	case lastmod.Year() >= 1 && !lastmod.IsZero() && lastmod.After(before) && !lastmod.After(now):
		return lastmod
	case now.After(before):
		return now
	}
	return before.Add(microsecond)
}

// link returns the link of a record to its version, whose bytes are h
// (RS-REL-51, ME-RS-03).
func (o *VersionOptions) link(r *catalog.Record, h held, at time.Time) resourcesync.Link {
	l := resourcesync.Link{
		Rel: resourcesync.RelMemento, Href: o.Base.Memento(r.URI, at), Type: r.Type, Modified: resourcesync.NewDatetime(at),
		Length: h.size, HasLength: true, Hashes: r.Hashes,
	}
	if len(l.Hashes) == 0 {
		l.Hashes = h.hashes
	}
	return l
}

// linked returns the datetime of the version that a record names, if its
// address was built with Base.
func (o *VersionOptions) linked(r *catalog.Record) (time.Time, bool) {
	l := catalog.Memento(r.Links)
	if l == nil || l.Modified.IsZero() {
		return time.Time{}, false
	}
	at := l.Modified.Time().UTC()
	return at, l.Href == o.Base.Memento(r.URI, at)
}

// row returns the row of the index for the version a record names.
func row(r *catalog.Record, at time.Time) (memento.Version, bool) {
	d, ok := digestOf(r.Hashes)
	return memento.Version{
		URI: r.URI, At: at, Digest: d, Length: r.Length, Type: r.Type, Encoding: r.Encoding, Lastmod: r.Lastmod, Event: r.EventTime, Seq: int64(r.Seq),
	}, ok && r.Length >= 0
}

// OpenVersion opens the bytes of a version. It returns fs.ErrNotExist if there are
// none, and a [vault.DamagedError] if they are damaged; a Read may return the
// latter too, before it returns any wrong byte.
func (k *Keeper) OpenVersion(ctx context.Context, v memento.Version) (memento.Content, error) {
	if v.Gone || k.opts.Vault == nil {
		return nil, fmt.Errorf("open version of %s: %w", v.URI, fs.ErrNotExist)
	}
	r, err := k.opts.Vault.Open(ctx, v.Digest)
	if err != nil {
		k.damage(err)
		return nil, fmt.Errorf("open version of %s: %w", v.URI, err)
	}
	return &content{r, k}, nil
}

// A content counts damaged reads.
type content struct {
	*vault.Reader
	keeper *Keeper
}

func (c *content) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.keeper.damage(err)
	return n, err
}

// Damaged returns how often stored bytes of versions were found to be damaged.
func (k *Keeper) Damaged() int64 { return k.damaged.Load() }

func (k *Keeper) damage(err error) {
	if _, is := errors.AsType[*vault.DamagedError](err); is {
		k.damaged.Add(1)
	}
}

// recorderOf returns the recorder of a set that keeps versions, or did.
func (k *Keeper) recorderOf(set string) (*recorder, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.sets[set]
	if r == nil || r.opts.Versions == nil {
		return nil, fmt.Errorf("set %s keeps no versions", set)
	}
	return r, nil
}

// inSteps splits updates in which a deleted resource is put again: the time of
// the deletion must precede that of the version that follows.
func inSteps(updates []catalog.Update) [][]catalog.Update {
	var steps [][]catalog.Update
	gone := make(map[string]bool)
	first := 0
	for i := range updates {
		u := &updates[i]
		if !u.Deleted && gone[u.URI] {
			steps = append(steps, updates[first:i:i])
			first = i
			clear(gone)
		}
		if u.Deleted {
			gone[u.URI] = true
		}
	}
	return append(steps, updates[first:])
}

// withoutMementos returns links without those to versions.
func withoutMementos(links []resourcesync.Link) []resourcesync.Link {
	if catalog.Memento(links) == nil {
		return links
	}
	return slices.DeleteFunc(slices.Clone(links), func(l resourcesync.Link) bool { return l.Rel == resourcesync.RelMemento })
}
