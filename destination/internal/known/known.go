// Package known records what the parts of a Resource List Index stated, so that a part
// that has not changed need not be transferred and read again.
//
// It is recorded of a part which resources it states, as a range of URIs, a number and a
// digest over all that a Destination takes from its entries. Nothing is recorded of a
// single resource: the rows of the Journal say what the Source stated of each. Before
// the rows in the range replace a part, they must have the recorded number and digest.
// So they state exactly what the part did, whatever has happened in the meantime: a
// resource that could not be fetched, was changed by another document, is no longer
// selected or belongs to another part as well gives another digest, and the part is read.
package known

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// maxParts limits the parts that are recorded, each of which takes about 400 bytes. Of a
// list with more parts, the others are read each time.
const maxParts = 10_000

// maxWarnings limits the warnings that are recorded of a part; one with more is read again.
const maxWarnings = 20

// For each resource of a part there may be so many rows of other sets between its URIs, and
// moreOthers for the part, for it to be looked for in the Journal: a Source must not cause
// long searches with small parts.
const (
	maxOthers  = 20
	moreOthers = 1000
)

// form numbers what a digest is of. It is raised when a Destination takes more, or
// something else, from the entries of a list.
const form = 1

// A Part is what is recorded of a part that was read to its end.
type Part struct {
	Validators saved.Validators `json:"validators"`        // of the document
	Lastmod    string           `json:"lastmod,omitempty"` // of the document, as the index stated
	At         string           `json:"at,omitempty"`
	First      string           `json:"first"` // lowest URI
	Last       string           `json:"last"`  // highest URI
	Entries    int64            `json:"entries"`
	Digest     []byte           `json:"digest"`
	Warnings   []string         `json:"warnings,omitempty"` // of the document, which apply as long as it does
}

// Taken returns the at that the part states; zero: none.
func (p *Part) Taken() resourcesync.Datetime {
	at, err := resourcesync.ParseDatetime(p.At)
	if err != nil {
		return resourcesync.Datetime{} // it states none
	}
	return at
}

// Named reports whether a server's word that the part has not changed since can be relied
// on, where its index states lastmod. An ETag identifies the content. A Last-Modified does
// not: many servers report a document that was replaced by an older one as unchanged.
// Then the index has to state the same as before, too.
func (p *Part) Named(lastmod resourcesync.Datetime) bool {
	return p.Validators.ETag != "" || !lastmod.IsZero() && lastmod.String() == p.Lastmod
}

// A Digest adds up the entries of a part, in any order.
type Digest struct {
	entries     int64
	sum         [sha256.Size / 8]uint64
	first, last string
	buf         []byte
}

// Add adds an entry, without regard to its Rank.
func (d *Digest) Add(w *desired.Resource) {
	if d.entries == 0 || w.URI < d.first {
		d.first = w.URI
	}
	if d.entries == 0 || w.URI > d.last {
		d.last = w.URI
	}
	d.entries++
	plain := *w
	plain.Rank = desired.Rank{}
	d.buf = plain.Append(desired.AppendString(append(d.buf[:0], form), w.URI))
	sum := sha256.Sum256(d.buf)
	for i := range d.sum {
		d.sum[i] += binary.LittleEndian.Uint64(sum[8*i:])
	}
}

// Matches reports whether the entries are those of p.
func (d *Digest) Matches(p *Part) bool {
	return d.entries == p.Entries && d.first == p.First && d.last == p.Last && slices.Equal(d.bytes(), p.Digest)
}

// Part returns what is recorded of the entries.
func (d *Digest) Part(v saved.Validators, at resourcesync.Datetime) *Part {
	return &Part{Validators: v, At: at.String(), First: d.first, Last: d.last, Entries: d.entries, Digest: d.bytes()}
}

func (d *Digest) bytes() (b []byte) {
	for _, n := range d.sum {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return b
}

// Parts are what is recorded of the parts of a set's list. Its methods are safe for
// concurrent use, except Save; nil has no parts, and records none.
type Parts struct {
	journal journal.Journal
	set     int

	mu   sync.Mutex // guards next
	last map[string]*Part
	next map[string]*Part
}

// doc returns the name of the document that has the Parts of a set.
func doc(set int) string { return fmt.Sprintf("parts/%d", set) }

// Load returns what the Journal has recorded for a set. What cannot be decoded is left
// out: the parts are read again.
func Load(ctx context.Context, j journal.Journal, set int) (*Parts, error) {
	p := &Parts{journal: j, set: set}
	p.Restart()
	if _, err := saved.Load(ctx, j, doc(set), &p.last); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		p.last = nil
	}
	return p, nil
}

// Restart forgets what was recorded since Load.
func (p *Parts) Restart() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = make(map[string]*Part)
}

// Record records a part that was read, or proven; Save keeps it.
func (p *Parts) Record(uri string, part *Part) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.next) < maxParts && part.Entries > 0 && len(part.Warnings) <= maxWarnings && part.Validators != (saved.Validators{}) {
		p.next[uri] = part
	}
}

// Save keeps what was recorded. Parts of earlier readings that were not read are
// dropped, unless the reading was incomplete.
func (p *Parts) Save(ctx context.Context, complete bool) error {
	if !complete {
		for uri, part := range p.last {
			if _, read := p.next[uri]; !read && part != nil {
				p.Record(uri, part)
			}
		}
	}
	if maps.EqualFunc(p.last, p.next, func(a, b *Part) bool { return a != nil && slices.Equal(saved.Encode(a), saved.Encode(b)) }) {
		return nil
	}
	return p.journal.Record(ctx, journal.Batch{Save: map[string][]byte{doc(p.set): saved.Encode(p.next)}})
}

// Proven returns the part at uri if it is recorded and the rows of the Journal state
// what it did, otherwise nil. resource converts an entry as when the part is read.
func (p *Parts) Proven(ctx context.Context, uri string, resource func(*resourcesync.Entry) desired.Resource) (*Part, error) {
	if p == nil {
		return nil, nil
	}
	part := p.last[uri]
	if part == nil || part.Entries <= 0 {
		return nil, nil
	}
	var d Digest
	for w, err := range p.Rows(ctx, part, resource) {
		if err != nil {
			return nil, err
		}
		if d.Add(&w); d.entries > part.Entries {
			return nil, nil
		}
	}
	if !d.Matches(part) {
		return nil, nil
	}
	return part, nil
}

// Rows yields what the rows of the set in the range of a part state, unless there are too
// many of other sets: then they end early, and have another number. Rows that do not say
// what the set's documents state alone have other descriptions than any entry.
func (p *Parts) Rows(ctx context.Context, part *Part, resource func(*resourcesync.Entry) desired.Resource) func(yield func(desired.Resource, error) bool) {
	return func(yield func(desired.Resource, error) bool) {
		others := maxOthers*part.Entries + moreOthers
		for h, err := range p.journal.Held(ctx, part.First, part.Last+"\x00") {
			if err == nil && !slices.Contains(h.Sets, p.set) {
				if others--; others < 0 {
					return
				}
				continue
			}
			var w desired.Resource
			if err == nil {
				w = describe(&h, resource)
			}
			if !yield(w, err) || err != nil {
				return
			}
		}
	}
}

// describe returns what the entry said that h was made from.
func describe(h *journal.Held, resource func(*resourcesync.Entry) desired.Resource) desired.Resource {
	s := h.Stated
	if s == nil || len(h.Sets) != 1 {
		return desired.Resource{URI: h.URI, Undescribed: true}
	}
	return resource(&resourcesync.Entry{Loc: h.URI, Lastmod: s.Lastmod, Links: h.Links, Foreign: s.Foreign, Metadata: resourcesync.Metadata{
		Hashes: s.Hashes, Length: max(0, s.Length), HasLength: s.Length >= 0, Type: h.Type, Encoding: s.Encoding,
	}})
}
