package history

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/vault"
)

// trimShare limits how often all versions are searched for old ones: the pause
// after a search is this many times its duration.
const trimShare = 100

// longSearch is the duration from which on a search for old versions is recorded
// for the next process.
const longSearch = 100 * time.Millisecond

// trim drops the versions that the rule no longer covers. By age it drops content
// that was already replaced at an Instant before that age, and the Instants before
// it: the history since then stays complete. By count it drops the older versions
// of each resource, which are recorded as forgotten. Order of its writes: Instants,
// so that no reader asks for them; rows; bytes.
func (k *Keeper) trim(ctx context.Context) error {
	d := &k.doc
	now := k.m.Clock()
	switch since := now.Sub(d.Trimmed); {
	case since >= 0 && since < max(trimShare*d.Took, d.Keep.Age/trimShare), d.Keep.All && !d.SweepDue:
		return nil
	case d.Keep.Age == 0 && d.TrimSeq == d.Seq && !d.SweepDue:
		return nil // there is no new version
	}
	if d.Keep.Age > 0 {
		if err := k.raiseSince(ctx, now.Add(-d.Keep.Age)); err != nil {
			return err
		}
	}
	floor, err := k.m.Journal.Instant(ctx, d.Since)
	if err != nil {
		return err
	}
	t := trimmer{k: k, floor: floor.Seq}
	if err := t.run(ctx); err != nil {
		return fmt.Errorf("drop old versions: %w", err)
	}
	due := d.SweepDue
	if due {
		if err := k.sweep(ctx); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			k.m.Log.WarnContext(ctx, "remove versions that were dropped", slog.Any("err", err)) // the next run tries again
		} else {
			d.SweepDue = false
		}
	}
	d.Trimmed, d.Took, d.TrimSeq = now, k.m.Clock().Sub(now), d.Seq
	if !due && d.Took < longSearch {
		return nil
	}
	return k.m.Journal.Record(ctx, journal.Batch{Save: map[string][]byte{docName: saved.Encode(*d)}})
}

// raiseSince makes the history begin with the last Instant that is not after at, if
// there is one.
func (k *Keeper) raiseSince(ctx context.Context, at time.Time) error {
	i, err := k.m.Journal.Instant(ctx, at)
	if err != nil || !i.At.After(k.doc.Since) {
		return err
	}
	next := k.doc
	next.Since = i.At
	if err := k.m.Journal.Record(ctx, journal.Batch{Since: i.Seq, Save: map[string][]byte{docName: saved.Encode(next)}}); err != nil {
		return fmt.Errorf("drop old versions: %w", err)
	}
	k.doc = next
	return nil
}

// A row is an entry, with the information whether it is the first of a version: a
// version has several entries if only its description changed, or if a recorded
// change did not happen.
type row struct {
	past  journal.Past
	first bool
}

// A trimmer processes the entries of all resources.
type trimmer struct {
	k     *Keeper
	floor int64 // entries up to this batch are not needed

	uri    string
	window []row // the newest entries of the resource, of no more versions than the rule covers
	held   int   // versions in window
	marked int64 // batch up to which the resource is recorded as forgotten; zero: none
	last   int64 // newest entry dropped because there are too many; zero: none

	batch          journal.Batch
	versions, size int64 // totals that batch drops
}

func (t *trimmer) run(ctx context.Context) error {
	for p, err := range t.k.m.Journal.Past(ctx, "", "", 0) {
		if err != nil {
			return err
		}
		if p.URI != t.uri {
			t.mark()
			t.uri, t.window, t.held, t.marked, t.last = p.URI, t.window[:0], 0, 0, 0
		}
		if p.Seq <= t.floor {
			t.drop(&p)
		} else if t.k.doc.Keep.Count > 0 {
			t.push(p)
		}
		if len(t.batch.Forget) >= batchCount {
			if err := t.flush(ctx); err != nil {
				return err
			}
		}
	}
	return t.flush(ctx)
}

// push adds an entry, and drops versions in excess of the limit.
func (t *trimmer) push(p journal.Past) {
	added := row{p, p.Was == journal.WasHeld}
	if n := len(t.window); n > 0 && added.first && t.window[n-1].past.Was == journal.WasHeld {
		added.first = !sameContent(&t.window[n-1].past.Held, &p.Held)
	}
	if t.window = append(t.window, added); added.first {
		t.held++
	}
	for t.held > t.k.doc.Keep.Count || len(t.window) > 0 && t.window[0].past.Was == journal.WasForgotten {
		old := t.window[0]
		t.window = t.window[1:]
		switch next := t.window; {
		case !old.first:
		case len(next) > 0 && next[0].past.Was == journal.WasHeld && !next[0].first:
			next[0].first = true // it is an entry of the same version
		default:
			t.held--
		}
		if old.past.Was == journal.WasForgotten {
			t.marked = old.past.Seq
		} else {
			t.drop(&old.past)
		}
		t.last = old.past.Seq
	}
}

func (t *trimmer) drop(p *journal.Past) {
	t.batch.Forget = append(t.batch.Forget, *p)
	if p.Digest != (vault.Digest{}) {
		t.versions++
		t.size += p.Length
	}
}

// mark records the dropped entries of the resource as forgotten, in the batch that
// drops them: otherwise a reader would use the next entry for the state before
// them, too.
func (t *trimmer) mark() {
	if t.last <= t.marked {
		return
	}
	if t.marked > 0 {
		t.batch.Forget = append(t.batch.Forget, journal.Past{Held: journal.Held{URI: t.uri}, Seq: t.marked})
	}
	t.batch.Past = append(t.batch.Past, journal.Past{Held: journal.Held{URI: t.uri}, Seq: t.last, Was: journal.WasForgotten})
	t.marked = t.last
}

func (t *trimmer) flush(ctx context.Context) error {
	t.mark()
	if len(t.batch.Forget) == 0 {
		return nil
	}
	next := t.k.doc
	next.Versions, next.Bytes = next.Versions-t.versions, next.Bytes-t.size
	next.SweepDue = next.SweepDue || t.versions > 0
	t.batch.Save = map[string][]byte{docName: saved.Encode(next)}
	if err := t.k.m.Journal.Record(ctx, t.batch); err != nil {
		return err
	}
	t.k.doc = next
	t.batch, t.versions, t.size = journal.Batch{}, 0, 0
	return nil
}

// sweep removes the bytes of versions that no entry refers to.
func (k *Keeper) sweep(ctx context.Context) error {
	_, err := k.m.Versions.Sweep(ctx, func(ctx context.Context) iter.Seq2[vault.Digest, error] {
		return func(yield func(vault.Digest, error) bool) {
			for p, err := range k.m.Journal.Past(ctx, "", "", 0) {
				if err != nil {
					yield(vault.Digest{}, err)
					return
				}
				if d := vault.Digest(p.Digest); d != (vault.Digest{}) && !yield(d, nil) {
					return
				}
			}
		}
	})
	return err
}
