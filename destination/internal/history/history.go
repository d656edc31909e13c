// Package history stores earlier states of a mirror: before a resource changes, it
// records the resource's row and stores its content. It also reads the state of the
// mirror at an earlier instant.
package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"lockstep/blob"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/vault"
)

// A Rule says which versions a mirror stores. At most one field is set. If none is,
// the recorded rule applies; a mirror without one stores no versions.
type Rule struct {
	All   bool          `json:"all,omitempty"`
	Count int           `json:"count,omitempty"` // this many versions of each resource, the newest
	Age   time.Duration `json:"age,omitempty"`   // every version that was current within this time
	None  bool          `json:"none,omitempty"`  // no version, not even those stored so far
}

// docName is the name of the document in the Journal that contains a document; it
// does not exist if the mirror stores no versions.
const docName = "history"

// batchCount is the number of versions that one transaction removes.
const batchCount = 1024

// A document describes the history of a mirror as a whole.
type document struct {
	Keep     Rule          `json:"keep"`
	Seq      int64         `json:"seq"`                 // of the last batch
	Since    time.Time     `json:"since,omitzero"`      // the first Instant
	At       time.Time     `json:"at,omitzero"`         // the last Instant
	AtSeq    int64         `json:"at_seq"`              // its Seq
	Versions int64         `json:"versions"`            // number of versions stored
	Bytes    int64         `json:"bytes"`               // their total size, each counted as a whole
	Trimmed  time.Time     `json:"trimmed,omitzero"`    // time of the last search for old versions
	Took     time.Duration `json:"took,omitempty"`      // the duration of that search
	TrimSeq  int64         `json:"trim_seq,omitempty"`  // Seq at that time
	SweepDue bool          `json:"sweep_due,omitempty"` // the content of dropped versions may still be stored
}

// begun reports whether there is an Instant: the state before the first one is
// unknown.
func (d *document) begun() bool { return !d.At.IsZero() }

// A Mirror is the mirror that a history belongs to, and the place where it is
// stored.
type Mirror struct {
	Journal  journal.Journal
	Files    blob.Store
	Versions *vault.Vault // nil: no version store is configured
	Log      *slog.Logger
	Clock    func() time.Time
	Open     int // limit on versions that are open while they are stored
}

// A Keeper records the state of a mirror before it changes. The state at an Instant
// is the state that a completed run left: between two Instants the mirror is in
// transition, and the next run continues a run that was killed. Before a row of the
// Journal changes, the Keeper records the old row; before a file changes, it stores
// the file's bytes, and records that together with the intent of the batch. The
// records are true whether or not the change happens, so no repair is needed after
// a crash.
//
// A nil Keeper belongs to a mirror that stores no versions.
type Keeper struct {
	m     Mirror
	doc   document
	on    bool              // doc.begun(); it changes between batches only, so that it can be read while one is recorded
	marks map[int]time.Time // watermarks of the sets
	sums  content.Hashers
}

// Open returns the Keeper of a mirror that is to follow a rule, or nil if it stores
// no versions. If whole is set, the mirror is now in the state that a completed run
// left; watermarks then marks the sets for its first Instant. The Keeper is usable
// even if the error is not nil.
func Open(ctx context.Context, m Mirror, want Rule, whole bool, watermarks func(mark func(set int, watermark time.Time)) (known bool, err error)) (*Keeper, error) {
	k := &Keeper{m: m, marks: map[int]time.Time{}}
	known, err := saved.Load(ctx, m.Journal, docName, &k.doc)
	switch {
	case err != nil:
		return nil, err
	case !known && (want == Rule{} || want.None):
		return nil, nil
	case m.Versions == nil:
		return nil, errors.New("the mirror keeps versions, but no version store is configured (Options.Versions)")
	case want.None || k.doc.Keep.None:
		if err := k.forget(ctx); err != nil || want == (Rule{}) || want.None {
			return nil, err
		}
		k.doc = document{}
	}
	k.on = k.doc.begun()
	was := k.doc.Keep
	if want != (Rule{}) {
		k.doc.Keep = want
	}
	if was != k.doc.Keep {
		k.doc.Trimmed, k.doc.TrimSeq = time.Time{}, -1
	}
	if k.doc.begun() {
		if err = k.loadMarks(ctx); err == nil && whole && k.doc.Seq != k.doc.AtSeq {
			return k, k.instant(ctx) // the last run was killed after it had finished its work
		}
	} else if whole {
		first, err := watermarks(k.Mark)
		if err != nil {
			return k, err
		}
		if first {
			return k, k.instant(ctx)
		}
	}
	if err == nil && was != k.doc.Keep {
		err = m.Journal.Record(ctx, journal.Batch{Save: map[string][]byte{docName: saved.Encode(k.doc)}})
	}
	return k, err
}

// Exists reports whether a mirror keeps versions and knows an earlier state.
func Exists(ctx context.Context, j journal.Journal) (bool, error) {
	var d document
	if _, err := saved.Load(ctx, j, docName, &d); err != nil {
		return false, err
	}
	return !d.Keep.None && d.begun(), nil
}

func (k *Keeper) loadMarks(ctx context.Context) error {
	i, err := k.m.Journal.Instant(ctx, k.doc.At)
	if err == nil {
		k.marks, err = decodeMarks(i.Note)
	}
	return err
}

// decodeMarks reads the Note of an Instant: the watermarks of the sets.
func decodeMarks(note []byte) (map[int]time.Time, error) {
	marks := map[int]time.Time{}
	if len(note) == 0 {
		return marks, nil
	}
	if err := json.Unmarshal(note, &marks); err != nil {
		return nil, fmt.Errorf("read what the mirror was: %w", err)
	}
	return marks, nil
}

// Mark records the watermark of a set for the next Instant.
func (k *Keeper) Mark(set int, watermark time.Time) {
	if k != nil && !watermark.IsZero() {
		k.marks[set] = watermark
	}
}

// IsOn reports whether changes have to be recorded. It may be called while a batch is recorded.
func (k *Keeper) IsOn() bool { return k != nil && k.on }

// Kept returns how many versions are kept, their size, and the first Instant.
func (k *Keeper) Kept() (versions, bytes int64, since time.Time) {
	return k.doc.Versions, k.doc.Bytes, k.doc.Since
}

// Record records b in j and assigns numbers to its past entries.
func (k *Keeper) Record(ctx context.Context, j journal.Journal, b journal.Batch) error {
	if !k.IsOn() {
		b.Past = nil
	}
	if len(b.Past) == 0 {
		return j.Record(ctx, b)
	}
	next := k.doc
	next.Seq++
	for i := range b.Past {
		p := &b.Past[i]
		p.Seq = next.Seq
		if p.Digest != (vault.Digest{}) {
			next.Versions++
			next.Bytes += p.Length
		}
	}
	if b.Save == nil {
		b.Save = map[string][]byte{}
	}
	b.Save[docName] = saved.Encode(next)
	if err := j.Record(ctx, b); err != nil {
		return err
	}
	k.doc = next
	return nil
}

// AddPast adds to b the former rows of the resources that it changes.
func (k *Keeper) AddPast(ctx context.Context, b *journal.Batch) error {
	if !k.IsOn() {
		return nil
	}
	uris := make([]string, 0, len(b.Put)+len(b.Drop))
	for i := range b.Put {
		uris = append(uris, b.Put[i].URI)
	}
	uris = append(uris, b.Drop...)
	before, err := k.m.Journal.Lookup(ctx, uris)
	if err != nil {
		return err
	}
	for i, uri := range uris {
		if i >= len(b.Put) || Differs(&before[i], &b.Put[i]) {
			b.Past = append(b.Past, Before(uri, &before[i]))
		}
	}
	return nil
}

// Before returns the entry for a resource whose row was h; zero: the mirror did not
// hold it.
func Before(uri string, h *journal.Held) journal.Past {
	p := journal.Past{Held: *h}
	if h.URI == "" {
		p.Held, p.Was = journal.Held{URI: uri}, journal.WasAbsent
	}
	p.ETag, p.Modified, p.Written, p.Tag = "", "", time.Time{}, ""
	return p
}

// Differs reports whether two rows describe a resource differently.
func Differs(a, b *journal.Held) bool {
	return a.URI != b.URI || a.Path != b.Path || !a.Lastmod.Equal(b.Lastmod) || !slices.Equal(a.Sets, b.Sets) ||
		!(sameContent(a, b) || len(a.Hashes)+len(b.Hashes) == 0)
}

// sameContent reports whether two rows describe the same bytes.
func sameContent(a, b *journal.Held) bool {
	return a.Length == b.Length && content.Compare(a.Hashes, b.Hashes) == content.Same
}

// End records that a run has completed, and drops the versions that the rule no
// longer covers.
func (k *Keeper) End(ctx context.Context) error {
	if k == nil {
		return nil
	}
	if k.doc.begun() && k.doc.Seq == k.doc.AtSeq {
		return k.trim(ctx)
	}
	if err := k.instant(ctx); err != nil {
		return err
	}
	return k.trim(ctx)
}

// instant records that the mirror is in the state that a completed run left.
// Instants increase even if the clock does not.
func (k *Keeper) instant(ctx context.Context) error {
	next := k.doc
	next.At, next.AtSeq = k.m.Clock().UTC().Truncate(time.Microsecond), k.doc.Seq
	if !next.At.After(k.doc.At) {
		next.At = k.doc.At.Add(time.Microsecond)
	}
	if next.Since.IsZero() {
		next.Since = next.At
	}
	b := journal.Batch{Instant: journal.Instant{At: next.At, Seq: next.Seq, Note: saved.Encode(k.marks)}, Save: map[string][]byte{docName: saved.Encode(next)}}
	if err := k.m.Journal.Record(ctx, b); err != nil {
		return fmt.Errorf("record that the mirror is whole: %w", err)
	}
	k.doc, k.on = next, true
	return nil
}

// forget drops the whole history. Order of its writes: a record that the history is
// no longer valid; the rows; the bytes; a record that there is no history.
func (k *Keeper) forget(ctx context.Context) error {
	j := k.m.Journal
	if err := j.Record(ctx, journal.Batch{Save: map[string][]byte{docName: saved.Encode(document{Keep: Rule{None: true}})}}); err != nil {
		return fmt.Errorf("forget versions: %w", err)
	}
	b := journal.Batch{Since: math.MaxInt64}
	for p, err := range j.Past(ctx, "", "", 0) {
		if err != nil {
			return fmt.Errorf("forget versions: %w", err)
		}
		if b.Forget = append(b.Forget, p); len(b.Forget) < batchCount {
			continue
		}
		if err := j.Record(ctx, b); err != nil {
			return fmt.Errorf("forget versions: %w", err)
		}
		b.Forget = b.Forget[:0]
	}
	if err := j.Record(ctx, b); err != nil {
		return fmt.Errorf("forget versions: %w", err)
	}
	if err := k.sweep(ctx); err != nil {
		return err
	}
	return j.Record(ctx, journal.Batch{Save: map[string][]byte{docName: nil}})
}
