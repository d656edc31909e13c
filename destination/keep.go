package destination

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/vault"
)

// A Keep says which versions a mirror keeps of what is replaced in it or
// removed from it. At most one field is set. If none is, the mirror keeps its
// recorded setting; a mirror without one keeps no versions.
type Keep struct {
	All   bool          `json:"all,omitempty"`
	Count int           `json:"count,omitempty"` // of each resource the newest so many
	Age   time.Duration `json:"age,omitempty"`   // what was there no longer ago than this
	None  bool          `json:"none,omitempty"`  // and those there are, are forgotten
}

func (k Keep) check() error {
	set := 0
	for _, is := range []bool{k.All, k.Count != 0, k.Age != 0, k.None} {
		if is {
			set++
		}
	}
	if set > 1 || k.Count < 0 || k.Age < 0 {
		return errors.New("which versions to keep: want all, a number of them above 0, or an age")
	}
	return nil
}

// docHistory is the document that says how a mirror keeps versions; absent when
// it does not.
const docHistory = "history"

// history is what a mirror knows of its past as a whole.
type history struct {
	Keep     Keep          `json:"keep"`
	Seq      int64         `json:"seq"`                 // of the last batch
	Since    time.Time     `json:"since,omitzero"`      // the first Instant; there is none before
	At       time.Time     `json:"at,omitzero"`         // the last Instant
	AtSeq    int64         `json:"at_seq"`              // its Seq
	Versions int64         `json:"versions"`            // that are kept
	Bytes    int64         `json:"bytes"`               // of them, each counted as a whole
	Trimmed  time.Time     `json:"trimmed,omitzero"`    // when what is too old was looked for
	Took     time.Duration `json:"took,omitempty"`      // and how long it took
	TrimSeq  int64         `json:"trim_seq,omitempty"`  // Seq then
	SweepDue bool          `json:"sweep_due,omitempty"` // bytes of what was dropped may be there still
}

// begun reports whether there is an Instant: changes before the first cannot be
// asked for.
func (h *history) begun() bool { return !h.At.IsZero() }

// A keeper records what a mirror was before it is changed. The state of a
// mirror at an Instant is what a completed run left: between two Instants it is
// on its way from one to the next, and the next run continues a run that was
// killed. Before a row of the Journal changes, the keeper records what it was;
// before a file changes, it keeps the bytes, and records that with the intent
// of the batch. The records are true whether or not the change happens, so
// nothing has to be repaired after a crash.
//
// The nil keeper is that of a mirror that keeps no versions.
type keeper struct {
	d *Destination
	history
	marks map[int]time.Time // watermarks of the sets
	sums  content.Hashers
}

// openKeeper begins to keep, if that is wanted; whole says that what the mirror
// is now a run left that had ended.
func (s *session) openKeeper(ctx context.Context, whole bool) error {
	want := s.d.opts.Keep
	k := &keeper{d: s.d, marks: map[int]time.Time{}}
	known, err := saved.Load(ctx, s.d.journal, docHistory, &k.history)
	switch {
	case err != nil:
		return err
	case !known && (want == Keep{} || want.None):
		return nil
	case s.d.vault == nil:
		return errors.New("the mirror keeps versions, but no version store is configured (Options.Versions)")
	case want.None || k.Keep.None:
		if err := k.forget(ctx); err != nil || want == (Keep{}) || want.None {
			return err
		}
		k.history = history{}
	}
	was := k.Keep
	if want != (Keep{}) {
		k.Keep = want
	}
	if was != k.Keep {
		k.Trimmed, k.TrimSeq = time.Time{}, -1
	}
	s.keep = k
	switch {
	case k.begun():
		if err = k.loadMarks(ctx); err == nil && whole && k.Seq != k.AtSeq {
			return k.instant(ctx) // the run before was killed when all was done
		}
	case whole && s.mirror.Found != nil:
		for _, n := range s.mirror.Numbers {
			var st setState
			if _, err := saved.Load(ctx, s.d.journal, saved.DocSet(n), &st); err != nil {
				return err
			}
			k.mark(&st)
		}
		return k.instant(ctx)
	}
	if err == nil && was != k.Keep {
		err = s.d.journal.Record(ctx, journal.Batch{Save: map[string][]byte{docHistory: saved.Encode(k.history)}})
	}
	return err
}

func (k *keeper) loadMarks(ctx context.Context) error {
	i, err := k.d.journal.Instant(ctx, k.At)
	if err == nil {
		k.marks, err = decodeMarks(i.Note)
	}
	return err
}

// mark records the watermark of a set.
func (k *keeper) mark(set *setState) {
	if k != nil && !set.Watermark.IsZero() {
		k.marks[set.Number] = set.Watermark
	}
}

// isOn reports whether what changes has to be noted.
func (k *keeper) isOn() bool { return k != nil && k.begun() }

// record records b, with its past entries: it assigns their numbers.
func (k *keeper) record(ctx context.Context, j journal.Journal, b journal.Batch) error {
	if !k.isOn() {
		b.Past = nil
	}
	if len(b.Past) == 0 {
		return j.Record(ctx, b)
	}
	next := k.history
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
	b.Save[docHistory] = saved.Encode(next)
	if err := j.Record(ctx, b); err != nil {
		return err
	}
	k.history = next
	return nil
}

// rows adds to b the past of the rows that it changes.
func (k *keeper) rows(ctx context.Context, b *journal.Batch) error {
	if !k.isOn() {
		return nil
	}
	uris := make([]string, 0, len(b.Put)+len(b.Drop))
	for i := range b.Put {
		uris = append(uris, b.Put[i].URI)
	}
	uris = append(uris, b.Drop...)
	before, err := k.d.journal.Lookup(ctx, uris)
	if err != nil {
		return err
	}
	for i, uri := range uris {
		if i >= len(b.Put) || differs(&before[i], &b.Put[i]) {
			b.Past = append(b.Past, pastOf(uri, &before[i]))
		}
	}
	return nil
}

// pastOf says of a resource that it was h; zero: it was not held.
func pastOf(uri string, h *journal.Held) journal.Past {
	p := journal.Past{Held: *h}
	if h.URI == "" {
		p.Held, p.Was = journal.Held{URI: uri}, journal.WasAbsent
	}
	p.ETag, p.Modified, p.Written, p.Tag = "", "", time.Time{}, ""
	return p
}

// differs reports whether the rows describe a resource differently.
func differs(a, b *journal.Held) bool {
	return a.URI != b.URI || a.Path != b.Path || !a.Lastmod.Equal(b.Lastmod) || !slices.Equal(a.Sets, b.Sets) ||
		!(sameContent(a, b) || len(a.Hashes)+len(b.Hashes) == 0)
}

// end notes that a run has come to its end, and drops what is not to be kept
// any longer.
func (k *keeper) end(ctx context.Context) error {
	if k == nil {
		return nil
	}
	if k.begun() && k.Seq == k.AtSeq {
		return k.trim(ctx)
	}
	if err := k.instant(ctx); err != nil {
		return err
	}
	return k.trim(ctx)
}

// instant notes that the mirror is whole now. Instants rise, whatever the clock
// does.
func (k *keeper) instant(ctx context.Context) error {
	next := k.history
	next.At, next.AtSeq = k.d.clock().UTC().Truncate(time.Microsecond), k.Seq
	if !next.At.After(k.At) {
		next.At = k.At.Add(time.Microsecond)
	}
	if next.Since.IsZero() {
		next.Since = next.At
	}
	b := journal.Batch{Instant: journal.Instant{At: next.At, Seq: next.Seq, Note: saved.Encode(k.marks)}, Save: map[string][]byte{docHistory: saved.Encode(next)}}
	if err := k.d.journal.Record(ctx, b); err != nil {
		return fmt.Errorf("record that the mirror is whole: %w", err)
	}
	k.history = next
	return nil
}

// forget drops all that is known of the past. The order of its writes: that the
// history is no longer valid; the rows; the bytes; that there is no history.
func (k *keeper) forget(ctx context.Context) error {
	j := k.d.journal
	if err := j.Record(ctx, journal.Batch{Save: map[string][]byte{docHistory: saved.Encode(history{Keep: Keep{None: true}})}}); err != nil {
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
	return j.Record(ctx, journal.Batch{Save: map[string][]byte{docHistory: nil}})
}

// endKeeping notes that a run has come to its end, and reports what is kept.
func (s *session) endKeeping(ctx context.Context) error {
	if err := s.keep.end(ctx); err != nil {
		return err
	}
	if k := s.keep; k.isOn() {
		s.report.Kept = &Kept{Versions: k.Versions, Bytes: k.Bytes, Since: k.Since}
	}
	return nil
}
