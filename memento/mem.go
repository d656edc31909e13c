package memento

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Mem is a Store in memory. Its content is lost when the process ends.
type Mem struct {
	mu   sync.Mutex // guards sets and all below it
	sets map[string]*memSet
}

// A memSet is the versions of a set.
type memSet struct {
	cursor    int64
	resources map[string]memResource
}

// A memResource is the versions of a resource. The slice is replaced, never
// modified, so that a reader needs no lock.
type memResource struct {
	versions []Version // ordered by At
	dropped  time.Time
}

var _ Store = (*Mem)(nil)

// NewMem returns an empty store.
func NewMem() *Mem { return &Mem{sets: make(map[string]*memSet)} }

// Append implements [Store].
func (m *Mem) Append(ctx context.Context, set string, cursor int64, vs []Version) error {
	if err := Check(set, vs); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sets[set]
	if s == nil {
		s = &memSet{resources: make(map[string]memResource)}
		m.sets[set] = s
	}
	s.cursor = max(s.cursor, cursor)
	vs = slices.Clone(vs)
	slices.SortStableFunc(vs, byKey)
	for len(vs) > 0 {
		n := 1
		for n < len(vs) && vs[n].URI == vs[0].URI {
			n++
		}
		uri := vs[0].URI
		r := s.resources[uri]
		r.add(vs[:n])
		s.resources[uri] = r
		vs = vs[n:]
	}
	return nil
}

func byKey(a, b Version) int {
	return cmp.Or(strings.Compare(a.URI, b.URI), cmp.Compare(a.At.UnixMicro(), b.At.UnixMicro()))
}

// add merges vs, which are in order, into the versions.
func (r *memResource) add(vs []Version) {
	merged := slices.Clone(r.versions)
	for i := range vs {
		v := normal(vs[i])
		if !v.At.After(r.dropped) {
			continue
		}
		at, found := slices.BinarySearchFunc(merged, v.At, func(v Version, at time.Time) int { return v.At.Compare(at) })
		if !found {
			merged = slices.Insert(merged, at, v)
		}
	}
	r.versions = merged
}

// normal returns v with the precision of stored times.
func normal(v Version) Version {
	n := Version{URI: v.URI, At: micro(v.At), Gone: v.Gone, Event: micro(v.Event), Seq: v.Seq}
	if v.Event.IsZero() {
		n.Event = n.At
	}
	n.Length = v.Length
	if !v.Gone {
		n.Digest, n.Type, n.Encoding, n.Lastmod = v.Digest, v.Type, v.Encoding, micro(v.Lastmod)
	}
	return n
}

func micro(t time.Time) time.Time { return time.UnixMicro(t.UnixMicro()).UTC() }

// Cursor implements [Store].
func (m *Mem) Cursor(ctx context.Context, set string) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.sets[set]; s != nil {
		return s.cursor, ctx.Err()
	}
	return 0, ctx.Err()
}

// Last implements [Store].
func (m *Mem) Last(ctx context.Context, set string, uris []string) ([]Version, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := make([]Version, len(uris))
	s := m.sets[set]
	if s == nil {
		return last, ctx.Err()
	}
	for i, uri := range uris {
		r := s.resources[uri]
		if n := len(r.versions); n > 0 {
			last[i] = r.versions[n-1]
		}
		if r.dropped.After(last[i].At) {
			last[i] = Version{URI: uri, At: r.dropped, Gone: true, Event: r.dropped}
		}
	}
	return last, ctx.Err()
}

// Around implements [Store].
func (m *Mem) Around(ctx context.Context, uri string, at time.Time) (Around, error) {
	a := Around{}
	until := Until(at)
	var all []Version
	for _, r := range m.resources(uri) {
		a.Known = true
		if r.dropped.After(a.Dropped) {
			a.Dropped = r.dropped
		}
		var selected Version
		for _, v := range r.versions {
			if v.At.UnixMicro() <= until {
				selected = v
			}
		}
		a.Select(selected)
		all = append(all, r.versions...)
	}
	for _, v := range distinct(all) {
		if v.Gone {
			continue
		}
		if a.First.IsZero() {
			a.First = v
		}
		if v.At.Before(a.Selected.At) {
			a.Prev = v
		}
		if a.Next.IsZero() && v.At.After(a.Selected.At) {
			a.Next = v
		}
		a.Last = v
	}
	return a, ctx.Err()
}

// Select sets Selected to v, the version that a set has up to an instant or the
// zero Version, if it is better than the current one.
func (a *Around) Select(v Version) {
	switch {
	case v.IsZero():
	case a.Selected.IsZero(), a.Selected.Gone && !v.Gone, a.Selected.Gone == v.Gone && v.At.After(a.Selected.At):
		a.Selected = v
	}
}

// resources returns the URI's versions in each of the sets, ordered by the
// names of the sets.
func (m *Mem) resources(uri string) []memResource {
	m.mu.Lock()
	defer m.mu.Unlock()
	var rs []memResource
	for _, set := range slices.Sorted(maps.Keys(m.sets)) {
		if r, ok := m.sets[set].resources[uri]; ok {
			rs = append(rs, r)
		}
	}
	return rs
}

// distinct sorts the versions of one URI; of versions with the same At it keeps
// one, if possible one that is not Gone.
func distinct(vs []Version) []Version {
	slices.SortStableFunc(vs, func(a, b Version) int {
		if c := a.At.Compare(b.At); c != 0 || a.Gone == b.Gone {
			return c
		}
		if b.Gone {
			return -1
		}
		return 1
	})
	return slices.CompactFunc(vs, func(a, b Version) bool { return a.At.Equal(b.At) })
}

// List implements [Store].
func (m *Mem) List(ctx context.Context, uri string, after time.Time) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		var all []Version
		for _, r := range m.resources(uri) {
			all = append(all, r.versions...)
		}
		for _, v := range distinct(all) {
			if err := ctx.Err(); err != nil {
				yield(Version{}, err)
				return
			}
			if v.At.After(after) && !yield(v, nil) {
				return
			}
		}
	}
}

// Walk implements [Store].
func (m *Mem) Walk(ctx context.Context, set, from string) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		for _, r := range m.from(set, from) {
			for _, v := range r.versions {
				if err := ctx.Err(); err != nil {
					yield(Version{}, err)
					return
				}
				if !yield(v, nil) {
					return
				}
			}
		}
	}
}

// from returns the resources of the set with URI >= from, ordered by URI.
func (m *Mem) from(set, from string) []memResource {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sets[set]
	if s == nil {
		return nil
	}
	var rs []memResource
	for _, uri := range slices.Sorted(maps.Keys(s.resources)) {
		if uri >= from {
			rs = append(rs, s.resources[uri])
		}
	}
	return rs
}

// Drop implements [Store].
func (m *Mem) Drop(ctx context.Context, set string, vs []Version) error {
	if err := Check(set, vs); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sets[set]
	if s == nil {
		return nil
	}
	for i := range vs {
		at := micro(vs[i].At)
		r := s.resources[vs[i].URI]
		n, found := slices.BinarySearchFunc(r.versions, at, func(v Version, at time.Time) int { return v.At.Compare(at) })
		if !found {
			continue
		}
		r.versions = slices.Delete(slices.Clone(r.versions), n, n+1)
		if at.After(r.dropped) {
			r.dropped = at
		}
		s.resources[vs[i].URI] = r
	}
	return nil
}
