package destination

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
)

// MemJournal is a [Journal] in memory, for mirrors that live no longer than
// the process. The zero value is empty and ready to use.
type MemJournal struct {
	Scratch string // directory for scratch files without names; default: none, see [Scratcher]

	mu   sync.Mutex // guards what follows
	docs map[string][]byte
	held map[string]Held
	owed map[owedKey]Owed
}

type owedKey struct {
	set int
	uri string
}

// Load implements [Journal].
func (j *MemJournal) Load(ctx context.Context, name string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return bytes.Clone(j.docs[name]), nil
}

// Lookup implements [Journal].
func (j *MemJournal) Lookup(ctx context.Context, uris []string) ([]Held, error) {
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
func (j *MemJournal) Held(ctx context.Context, from, to string) iter.Seq2[Held, error] {
	return func(yield func(Held, error) bool) {
		j.mu.Lock()
		var uris []string
		for uri := range j.held {
			if uri >= from && (uri < to || to == "") {
				uris = append(uris, uri)
			}
		}
		j.mu.Unlock()
		slices.Sort(uris)
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
func (j *MemJournal) Owed(ctx context.Context, set int) iter.Seq2[Owed, error] {
	return func(yield func(Owed, error) bool) {
		j.mu.Lock()
		var os []Owed
		for k, o := range j.owed {
			if k.set == set {
				os = append(os, o)
			}
		}
		j.mu.Unlock()
		slices.SortFunc(os, func(a, b Owed) int { return strings.Compare(a.URI, b.URI) })
		for _, o := range os {
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
func (j *MemJournal) Record(ctx context.Context, b Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.docs == nil {
		j.docs, j.held, j.owed = map[string][]byte{}, map[string]Held{}, map[owedKey]Owed{}
	}
	for _, h := range b.Put {
		j.held[h.URI] = h.clone()
	}
	for _, uri := range b.Drop {
		delete(j.held, uri)
	}
	for _, o := range b.Owe {
		o.Entry = bytes.Clone(o.Entry)
		j.owed[owedKey{o.Set, o.URI}] = o
	}
	for _, o := range b.Settle {
		delete(j.owed, owedKey{o.Set, o.URI})
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

// ScratchDir implements [Scratcher].
func (j *MemJournal) ScratchDir() (string, bool) { return j.Scratch, false }

func (h Held) clone() Held {
	h.Hashes, h.Sets = slices.Clone(h.Hashes), slices.Clone(h.Sets)
	return h
}
