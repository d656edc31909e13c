package journal

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"
)

// Mem is a [Journal] in memory, for mirrors that live no longer than
// the process. The zero value is empty and ready to use.
type Mem struct {
	Scratch string // directory for scratch files without names; default: none, see [Scratcher]

	mu   sync.Mutex // guards what follows
	docs map[string][]byte
	held map[string]Held
	owed map[memKey]Owed
	past map[string][]Past // by URI, ascending
	when []Instant         // ascending
}

type memKey struct {
	set int
	uri string
}

// Load implements [Journal].
func (j *Mem) Load(ctx context.Context, name string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return bytes.Clone(j.docs[name]), nil
}

// Lookup implements [Journal].
func (j *Mem) Lookup(ctx context.Context, uris []string) ([]Held, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	hs := make([]Held, len(uris))
	for i, uri := range uris {
		hs[i] = j.held[uri].clone()
	}
	return hs, nil
}

// Held implements [Journal].
func (j *Mem) Held(ctx context.Context, from, to string) iter.Seq2[Held, error] {
	return func(yield func(Held, error) bool) {
		j.mu.Lock()
		uris := urisBetween(j.held, from, to)
		j.mu.Unlock()
		for _, uri := range uris {
			if err := ctx.Err(); err != nil {
				yield(Held{}, err)
				return
			}
			j.mu.Lock()
			h, ok := j.held[uri]
			j.mu.Unlock()
			if ok && !yield(h.clone(), nil) {
				return
			}
		}
	}
}

// Owed implements [Journal].
func (j *Mem) Owed(ctx context.Context, set int) iter.Seq2[Owed, error] {
	return j.OwedBetween(ctx, set, "", "")
}

// OwedBetween yields the pending work of a set for the URIs above after, and below to. An
// empty to is above all.
func (j *Mem) OwedBetween(ctx context.Context, set int, after, to string) iter.Seq2[Owed, error] {
	return func(yield func(Owed, error) bool) {
		j.mu.Lock()
		found := map[string]Owed{}
		for k, o := range j.owed {
			if k.set == set && k.uri > after && (k.uri < to || to == "") {
				found[k.uri] = o
			}
		}
		j.mu.Unlock()
		for _, uri := range slices.Sorted(maps.Keys(found)) {
			o := found[uri]
			if err := ctx.Err(); err != nil {
				yield(Owed{}, err)
				return
			}
			o.Entry = bytes.Clone(o.Entry)
			if !yield(o, nil) {
				return
			}
		}
	}
}

// Record implements [Journal].
func (j *Mem) Record(ctx context.Context, b Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.docs == nil {
		j.docs, j.held, j.owed = map[string][]byte{}, map[string]Held{}, map[memKey]Owed{}
		j.past = map[string][]Past{}
	}
	j.ahead(&b)
	for _, h := range b.Put {
		j.held[h.URI] = h.clone()
	}
	for _, uri := range b.Drop {
		delete(j.held, uri)
	}
	for _, o := range b.Owe {
		o.Entry = bytes.Clone(o.Entry)
		j.owed[memKey{o.Set, o.URI}] = o
	}
	for _, o := range b.Settle {
		delete(j.owed, memKey{o.Set, o.URI})
	}
	for name, doc := range b.Save {
		if doc == nil {
			delete(j.docs, name)
		} else {
			j.docs[name] = bytes.Clone(doc)
		}
	}
	return nil
}

// ahead records what b says of the past. The caller holds mu.
func (j *Mem) ahead(b *Batch) {
	bySeq := func(p Past, seq int64) int { return cmp.Compare(p.Seq, seq) }
	for i := range b.Forget {
		f := &b.Forget[i]
		if k, ok := slices.BinarySearchFunc(j.past[f.URI], f.Seq, bySeq); ok {
			j.past[f.URI] = slices.Delete(slices.Clone(j.past[f.URI]), k, k+1)
		}
	}
	for _, p := range b.Past {
		if k, ok := slices.BinarySearchFunc(j.past[p.URI], p.Seq, bySeq); !ok {
			p.Held, p.ETag, p.Modified, p.Written, p.Tag = p.Held.clone(), "", "", time.Time{}, ""
			p.Type, p.Links, p.Stated = "", nil, nil
			j.past[p.URI] = slices.Insert(slices.Clone(j.past[p.URI]), k, p)
		}
	}
	if b.Since > 0 {
		j.when = slices.DeleteFunc(j.when, func(i Instant) bool { return i.Seq < b.Since })
	}
	if b.Instant.At.IsZero() {
		return
	}
	now := b.Instant
	now.Note = bytes.Clone(now.Note)
	if k, ok := slices.BinarySearchFunc(j.when, now.At, func(i Instant, at time.Time) int { return i.At.Compare(at) }); ok {
		j.when[k] = now
	} else {
		j.when = slices.Insert(j.when, k, now)
	}
}

// Past implements [Journal].
func (j *Mem) Past(ctx context.Context, from, to string, after int64) iter.Seq2[Past, error] {
	return func(yield func(Past, error) bool) {
		j.mu.Lock()
		uris := urisBetween(j.past, from, to)
		j.mu.Unlock()
		for _, uri := range uris {
			if err := ctx.Err(); err != nil {
				yield(Past{}, err)
				return
			}
			j.mu.Lock()
			ps := j.past[uri] // never changed in place
			j.mu.Unlock()
			for _, p := range ps {
				if p.Held = p.Held.clone(); p.Seq > after && !yield(p, nil) {
					return
				}
			}
		}
	}
}

// urisBetween returns the URIs u in m with from <= u < to, sorted. An empty to
// means no upper bound.
func urisBetween[V any](m map[string]V, from, to string) (uris []string) {
	for uri := range m {
		if uri >= from && (uri < to || to == "") {
			uris = append(uris, uri)
		}
	}
	slices.Sort(uris)
	return uris
}

// Instant implements [Journal].
func (j *Mem) Instant(ctx context.Context, at time.Time) (Instant, error) {
	if err := ctx.Err(); err != nil {
		return Instant{}, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, i := range slices.Backward(j.when) {
		if !i.At.After(at) {
			i.Note = bytes.Clone(i.Note)
			return i, nil
		}
	}
	return Instant{}, nil
}

// ScratchDir implements [Scratcher].
func (j *Mem) ScratchDir() (string, bool) { return j.Scratch, false }

func (h Held) clone() Held {
	h.Hashes, h.Sets, h.Links = slices.Clone(h.Hashes), slices.Clone(h.Sets), slices.Clone(h.Links)
	return h
}
