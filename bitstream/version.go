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

// VersionOptions has every version of every resource of a set kept: its bytes in
// [Options.Vault], and in [Options.Index] that there is one, since when, and what
// it was.
//
// The bytes are durable before the change that brings them is applied, and its
// record names them by a memento link (ME-RS-02). An Apply returns when the index
// is complete, too, and so do Status, Mark and Changes: what is published of the
// set names no version that cannot be had. An Apply in which a resource is deleted
// and put again is applied in several steps, not in one.
//
// What cannot be read is applied without a link, as [SetOptions.Open] says; the
// index knows then that there was something which was not kept. If the vault or
// the index cannot be written, Apply fails, and nothing is applied; where the set
// is rescanned, only what the vault does not take is left out, until it does.
type VersionOptions struct {
	Base memento.Base // what the addresses of versions begin with

	// Ending says that no more versions are kept. What happens to resources of
	// which there are some is noted all the same: nobody must take an old version
	// for the present one.
	Ending bool

	Now func() time.Time // default time.Now
}

// keepsVersions reports whether the bytes of new versions are kept.
func (o *SetOptions) keepsVersions() bool { return o.Versions != nil && !o.Versions.Ending }

// microsecond is the step in which versions of one resource differ at least.
const microsecond = time.Microsecond

// versionTime returns the datetime of a version: when it was last modified, if
// that is after the version before it and not in the future; else now; and if the
// clock went back, the next instant after the version before.
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

// link returns the link of a record to its version, which h is the bytes of
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

// linked returns the datetime of the version a record names, if that is one of
// ours.
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

// OpenVersion opens the bytes of a version. It fails with fs.ErrNotExist if there
// are none, with a [vault.DamagedError] if they are not what they were; the latter
// may come from a Read, too, before it yields anything that is wrong.
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

// A content counts what turns out to be damaged.
type content struct {
	*vault.Reader
	keeper *Keeper
}

func (c *content) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.keeper.damage(err)
	return n, err
}

// Damaged returns how often kept bytes of versions turned out to be damaged.
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

// inSteps cuts updates where a resource is put again that was deleted: the
// deletion must have its time before the version that ends it.
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
