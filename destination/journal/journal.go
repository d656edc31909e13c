// Package journal defines the Journal, the state of a Destination: which resources a mirror
// holds, which work is pending, how far each set has come, and what was held
// before. A [Journal] stores it in transactions; [Mem] is one in memory, and
// package storage/sqlite has one in a file.
package journal

import (
	"context"
	"iter"
	"time"

	"lockstep/blob"
	"lockstep/resourcesync"
)

// Held is one resource we hold: what its file is called and what is known of
// its bytes.
type Held struct {
	URI      string
	Path     string              // of the file, a name in the blob.Store; changes while held only where something else took its place
	Length   int64               // of the file
	Lastmod  time.Time           // as the Source stated it last, to the microsecond; zero when it did not
	Hashes   resourcesync.Hashes // of the file as it was written; empty when it has to be fetched again
	ETag     string              // validators of the answer the file came from
	Modified string              // its Last-Modified header, verbatim
	Sets     []int               // the sets that contain it, ascending, by their numbers in the Journal
	Written  time.Time           // modification time of the file, to the microsecond; zero: not recorded
	Tag      string              // of the file, where the store distinguishes versions (blob.Info.Version); empty: not recorded
	Type     string              // media type, as the Source stated it last; may be empty
	Links    []resourcesync.Link // those the Source states that [KeepsLink] names, in its order
	Stated   *Stated             // what the Source states of the content; nil: Type and Links are unknown, too, as an earlier version recorded the row
}

// SetFile notes what the store says of the file, for later comparisons.
func (h *Held) SetFile(info *blob.Info) {
	h.Written, h.Tag = info.ModTime.Truncate(time.Microsecond).UTC(), info.Version
}

// Owed is work that could not be done: it is tried again in every run until it
// is done or no longer wanted.
type Owed struct {
	Set   int    // number of the set that asked for it
	URI   string // of the resource
	Entry []byte // what is to be done, opaque to the Journal
	Cause string // why it was not, in words
}

// A PastState says what a [Past] is about.
type PastState uint8

// What is known of a resource until a batch. The numbers never change.
const (
	WasHeld      PastState = 0 // it was held as the Past says
	WasAbsent    PastState = 1 // it was not held
	WasForgotten PastState = 2 // its state is no longer known; also of all batches before
)

// A Past is what a mirror that keeps versions held of a resource until a
// batch. As of a batch a resource was what its first Past above that says, and
// where there is none, what is held now.
type Past struct {
	Held             // only URI is set of what was not held, or is forgotten; ETag, Modified, Written, Tag, Type, Links and Stated never are
	Seq    int64     // number of the batch, above 0
	Was    PastState // what the rest says
	Digest [32]byte  // SHA-256 of the bytes that were kept; zero: none were
}

// An Instant is a moment at which a mirror that keeps versions was whole: a
// run had ended.
type Instant struct {
	At   time.Time // by the mirror's own clock, to the microsecond; zero: there is none
	Seq  int64     // number of the last batch before it; 0: before all
	Note []byte    // how far each set was, opaque to the Journal
}

// A Batch is what one transaction of the Journal changes. No URI occurs twice
// in Put and Drop together, nor a (Set, URI) in Owe and Settle together.
type Batch struct {
	Put    []Held            // now held, in place of what was known of the URI
	Drop   []string          // URIs no longer held
	Owe    []Owed            // in place of what was owed for the Set and URI
	Settle []Owed            // no longer owed; only Set and URI count
	Save   map[string][]byte // documents by name; nil removes one

	Forget  []Past  // no longer known; only URI and Seq count; they go first
	Past    []Past  // now known, unless something is known of the URI and Seq
	Instant Instant // now known, in place of one at the same time; zero: none
	Since   int64   // Instants with a lower Seq are no longer known
}

// A Journal is the state of a Destination: what it holds, its pending work and how
// far it has come. It belongs to one mirror and one run at a time.
//
// Every method is one transaction, durable when it returns. Methods may be
// called concurrently. The Journal may use its arguments only during the call;
// the caller owns the results. Iterators yield in the byte order of the URIs,
// stop after the first error, which they yield with a zero value, and may be
// interleaved with other calls: they yield what was there when they began, and
// may or may not yield what is added or removed after their position. They hold
// nothing that has to be released when abandoned.
//
// A Journal with a directory for scratch files is a [Scratcher].
type Journal interface {
	// Load returns the document saved under name, or nil.
	Load(ctx context.Context, name string) ([]byte, error)

	// Lookup returns what is held for each of the URIs, in their order; a URI
	// that is not held has the zero Held.
	Lookup(ctx context.Context, uris []string) ([]Held, error)

	// Held yields what is held from the URI from on, and below to. An empty to
	// is above all.
	Held(ctx context.Context, from, to string) iter.Seq2[Held, error]

	// Owed yields the pending work of a set.
	Owed(ctx context.Context, set int) iter.Seq2[Owed, error]

	// Past yields what is known of the past of the URIs from from on, and below
	// to, as far as the batches above after have to do with it: by URI, and of
	// each in the order of the batches. An empty to is above all.
	Past(ctx context.Context, from, to string, after int64) iter.Seq2[Past, error]

	// Instant returns the newest Instant not after at, or the zero Instant.
	Instant(ctx context.Context, at time.Time) (Instant, error)

	// Record makes the batch true, all or nothing.
	Record(ctx context.Context, b Batch) error
}

// A FileLister is a Journal that can list the files of what is held for less
// than [Journal.Held] costs.
type FileLister interface {
	// Files yields what is held, page by page in the byte order of the URIs.
	// What comes and goes meanwhile may or may not be seen.
	Files(ctx context.Context) iter.Seq2[FilePage, error]
}

// A FilePage is the files of the resources with URIs above After, up to Last.
type FilePage struct {
	After, Last string
	Files       []FileRecord
}

// A FileRecord is Path, Length, Written and Tag of a [Held]; a Tag with a slash in
// it may be given as "?".
type FileRecord struct {
	Path    string
	Length  int64
	Written time.Time
	Tag     string
}

// A Scratcher is a [Journal] with a directory in which a run may have scratch
// files, where it sorts what does not fit in memory. They have no names, or
// lose them as soon as they are made, so that nothing is left of them whatever
// happens. Without a directory, sorting is done in memory, up to a bound.
type Scratcher interface {
	// ScratchDir returns the directory, or "". Only where it is our own, and
	// its names beginning with "scratch-" are, may scratch files have names at
	// all; elsewhere, where files must have names, there are none.
	ScratchDir() (dir string, own bool)
}
