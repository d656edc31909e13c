package destination

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

// trimShare limits how often all versions are searched for those to be dropped:
// the pause after a search is this many times its duration.
const trimShare = 100

// worthNoting is how long a search for versions to drop has to take for its
// duration to be recorded for the next process.
const worthNoting = 100 * time.Millisecond

// trim drops what is not to be kept any longer. By age it drops what was
// already gone at an Instant before that age, and the Instants before it: the
// history since then stays complete. By count it drops the older versions of
// each resource, which are recorded as forgotten. The order of its writes:
// Instants, so that no reader asks for them; rows; bytes.
func (k *keeper) trim(ctx context.Context) error {
	now := k.d.clock()
	switch since := now.Sub(k.Trimmed); {
	case since >= 0 && since < max(trimShare*k.Took, k.Keep.Age/trimShare), k.Keep.All && !k.SweepDue:
		return nil
	case k.Keep.Age == 0 && k.TrimSeq == k.Seq && !k.SweepDue:
		return nil // nothing came
	}
	if k.Keep.Age > 0 {
		if err := k.raiseSince(ctx, now.Add(-k.Keep.Age)); err != nil {
			return err
		}
	}
	floor, err := k.d.journal.Instant(ctx, k.Since)
	if err != nil {
		return err
	}
	t := trimmer{keeper: k, floor: floor.Seq}
	if err := t.run(ctx); err != nil {
		return fmt.Errorf("drop old versions: %w", err)
	}
	due := k.SweepDue
	if due {
		if err := k.sweep(ctx); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			k.d.log.WarnContext(ctx, "remove versions that were dropped", slog.Any("err", err)) // the next time
		} else {
			k.SweepDue = false
		}
	}
	k.Trimmed, k.Took, k.TrimSeq = now, k.d.clock().Sub(now), k.Seq
	if !due && k.Took < worthNoting {
		return nil
	}
	return k.d.journal.Record(ctx, journal.Batch{Save: map[string][]byte{docHistory: saved.Encode(k.history)}})
}

// raiseSince has the history begin with the last Instant not after at, if there
// is one.
func (k *keeper) raiseSince(ctx context.Context, at time.Time) error {
	i, err := k.d.journal.Instant(ctx, at)
	if err != nil || !i.At.After(k.Since) {
		return err
	}
	next := k.history
	next.Since = i.At
	if err := k.d.journal.Record(ctx, journal.Batch{Since: i.Seq, Save: map[string][]byte{docHistory: saved.Encode(next)}}); err != nil {
		return fmt.Errorf("drop old versions: %w", err)
	}
	k.history = next
	return nil
}

// A pastRow is a row, and whether it is the first of a version: there are others
// of it where only what is known of it changed, or nothing came of what was noted.
type pastRow struct {
	journal.Past
	first bool
}

// A trimmer goes over all that is known of the past.
type trimmer struct {
	*keeper
	floor int64 // what was until then or before is not asked for

	uri    string
	window []pastRow // the newest rows of the resource, of no more versions than are kept
	held   int       // versions among them
	marked int64     // up to where it is recorded as forgotten; zero: nowhere
	last   int64     // the newest row that is dropped for there being too many; zero: none

	batch          journal.Batch
	versions, size int64 // that batch drops
}

func (t *trimmer) run(ctx context.Context) error {
	for p, err := range t.d.journal.Past(ctx, "", "", 0) {
		if err != nil {
			return err
		}
		if p.URI != t.uri {
			t.mark()
			t.uri, t.window, t.held, t.marked, t.last = p.URI, t.window[:0], 0, 0, 0
		}
		if p.Seq <= t.floor {
			t.drop(&p)
		} else if t.Keep.Count > 0 {
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

// push adds a row, and drops versions in excess of the limit.
func (t *trimmer) push(p journal.Past) {
	row := pastRow{p, p.Was == journal.WasHeld}
	if n := len(t.window); n > 0 && row.first && t.window[n-1].Was == journal.WasHeld {
		row.first = !sameContent(&t.window[n-1].Held, &p.Held)
	}
	if t.window = append(t.window, row); row.first {
		t.held++
	}
	for t.held > t.Keep.Count || len(t.window) > 0 && t.window[0].Was == journal.WasForgotten {
		old := t.window[0]
		t.window = t.window[1:]
		switch next := t.window; {
		case !old.first:
		case len(next) > 0 && next[0].Was == journal.WasHeld && !next[0].first:
			next[0].first = true // of the same version
		default:
			t.held--
		}
		if old.Was == journal.WasForgotten {
			t.marked = old.Seq
		} else {
			t.drop(&old.Past)
		}
		t.last = old.Seq
	}
}

func (t *trimmer) drop(p *journal.Past) {
	t.batch.Forget = append(t.batch.Forget, *p)
	if p.Digest != (vault.Digest{}) {
		t.versions++
		t.size += p.Length
	}
}

// mark records what was dropped of the resource as forgotten, in the batch that
// drops it: otherwise a reader would take the next row for the state before,
// too.
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
	next := t.history
	next.Versions, next.Bytes = next.Versions-t.versions, next.Bytes-t.size
	next.SweepDue = next.SweepDue || t.versions > 0
	t.batch.Save = map[string][]byte{docHistory: saved.Encode(next)}
	if err := t.d.journal.Record(ctx, t.batch); err != nil {
		return err
	}
	t.history = next
	t.batch, t.versions, t.size = journal.Batch{}, 0, 0
	return nil
}

// sweep removes the bytes of versions that no row refers to.
func (k *keeper) sweep(ctx context.Context) error {
	_, err := k.d.vault.Sweep(ctx, func(ctx context.Context) iter.Seq2[vault.Digest, error] {
		return func(yield func(vault.Digest, error) bool) {
			for p, err := range k.d.journal.Past(ctx, "", "", 0) {
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
