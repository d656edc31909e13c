// Package part has several mirrors share one journal: each has a part of it, under its own name.
package part

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"lockstep/destination/journal"
)

// A Whole is a Journal that can be divided.
type Whole interface {
	journal.Journal

	// OwedBetween yields the pending work of a set for the URIs above after, and below to. An
	// empty to is above all.
	OwedBetween(ctx context.Context, set int, after, to string) iter.Seq2[journal.Owed, error]
}

// Of returns the part of a journal that belongs to the mirror with a name, which must not have
// blanks. It is a [journal.Journal] of a mirror that keeps no versions. Nothing but parts may have
// resources in the whole, which may have documents, whose names have no blanks.
//
// The keys of rows and documents begin with the name and a blank, which no URI has. So the rows of
// a part are together, in the order of their URIs.
func Of(whole Whole, name string) journal.Journal {
	return &part{whole: whole, prefix: name + " ", end: name + "!"} // '!' follows the blank
}

type part struct {
	whole       Whole
	prefix, end string // all keys are from prefix on, and below end
}

// errVersions refuses what only mirrors write that keep versions.
var errVersions = errors.New("a part of a journal has no earlier states")

// between returns the limits of a range of URIs in the whole.
func (p *part) between(from, to string) (string, string) {
	if to == "" {
		return p.prefix + from, p.end
	}
	return p.prefix + from, p.prefix + to
}

// Load implements [journal.Journal].
func (p *part) Load(ctx context.Context, name string) ([]byte, error) {
	return p.whole.Load(ctx, p.prefix+name)
}

// Lookup implements [journal.Journal].
func (p *part) Lookup(ctx context.Context, uris []string) ([]journal.Held, error) {
	keys := make([]string, len(uris))
	for i, uri := range uris {
		keys[i] = p.prefix + uri
	}
	held, err := p.whole.Lookup(ctx, keys)
	for i := range held {
		held[i].URI = strings.TrimPrefix(held[i].URI, p.prefix) // none if it is not held
	}
	return held, err
}

// Held implements [journal.Journal].
func (p *part) Held(ctx context.Context, from, to string) iter.Seq2[journal.Held, error] {
	from, to = p.between(from, to)
	return func(yield func(journal.Held, error) bool) {
		for h, err := range p.whole.Held(ctx, from, to) {
			h.URI = strings.TrimPrefix(h.URI, p.prefix)
			if !yield(h, err) {
				return
			}
		}
	}
}

// Owed implements [journal.Journal].
func (p *part) Owed(ctx context.Context, set int) iter.Seq2[journal.Owed, error] {
	return func(yield func(journal.Owed, error) bool) {
		for o, err := range p.whole.OwedBetween(ctx, set, p.prefix, p.end) {
			o.URI = strings.TrimPrefix(o.URI, p.prefix)
			if !yield(o, err) {
				return
			}
		}
	}
}

// Past implements [journal.Journal]: nothing is known.
func (p *part) Past(ctx context.Context, from, to string, after int64) iter.Seq2[journal.Past, error] {
	return func(yield func(journal.Past, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(journal.Past{}, err)
		}
	}
}

// Instant implements [journal.Journal]: there is none.
func (p *part) Instant(ctx context.Context, at time.Time) (journal.Instant, error) {
	return journal.Instant{}, ctx.Err()
}

// Record implements [journal.Journal]. It refuses what belongs to earlier states.
func (p *part) Record(ctx context.Context, b journal.Batch) error {
	if len(b.Forget) > 0 || len(b.Past) > 0 || b.Instant.Seq != 0 || !b.Instant.At.IsZero() || b.Since != 0 {
		return errVersions
	}
	in := journal.Batch{
		Put: make([]journal.Held, len(b.Put)), Drop: make([]string, len(b.Drop)),
		Owe: p.owed(b.Owe), Settle: p.owed(b.Settle), Save: make(map[string][]byte, len(b.Save)),
	}
	for i := range b.Put {
		in.Put[i] = b.Put[i]
		in.Put[i].URI = p.prefix + b.Put[i].URI
	}
	for i, uri := range b.Drop {
		in.Drop[i] = p.prefix + uri
	}
	for name, document := range b.Save {
		in.Save[p.prefix+name] = document
	}
	return p.whole.Record(ctx, in)
}

func (p *part) owed(all []journal.Owed) []journal.Owed {
	in := make([]journal.Owed, len(all))
	for i, o := range all {
		o.URI = p.prefix + o.URI
		in[i] = o
	}
	return in
}

// ScratchDir implements [journal.Scratcher]: the directory is that of the whole.
func (p *part) ScratchDir() (string, bool) {
	if s, ok := p.whole.(journal.Scratcher); ok {
		return s.ScratchDir()
	}
	return "", false
}
