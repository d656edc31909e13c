package destination

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"time"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
	"lockstep/vault"
)

// A past is one set of a mirror as it was at an instant of the mirror's own
// clock: as the last run that had ended by then left it.
type past struct {
	at        time.Time // when that run ended
	since     time.Time // the earliest instant there is one of; zero: of none
	watermark time.Time // of the set, on the Source's clock; zero if unknown

	// held yields what the set held, in the byte order of the URIs. A row
	// without a Path may have been held: its versions of that time were
	// dropped. Hashes may be empty where the file was in doubt. keptContent
	// returns the content.
	held iter.Seq2[journal.Held, error]
}

// errNoPast reports that a mirror does not know its own state at the requested
// instant: it kept no versions then, or they were dropped.
var errNoPast = errors.New("the mirror kept no versions then")

// ownPast returns the state of a set of the mirror at an instant of the
// mirror's own clock. The error is an errNoPast if the mirror kept no versions
// then; since is when it began to. What a killed run left must have been
// repaired before, see session.open.
func (d *Destination) ownPast(ctx context.Context, at time.Time, set int) (past, error) {
	var h history
	if _, err := saved.Load(ctx, d.journal, docHistory, &h); err != nil {
		return past{}, err
	}
	if h.Keep.None {
		h = history{}
	}
	p := past{since: h.Since}
	var i journal.Instant
	if h.begun() {
		var err error
		if i, err = d.journal.Instant(ctx, at); err != nil {
			return p, err
		}
	}
	if i.At.IsZero() {
		return p, fmt.Errorf("read the history of the mirror%s: %w", d.inDest(), errNoPast)
	}
	marks, err := decodeMarks(i.Note)
	if err != nil {
		return p, err
	}
	p.at, p.watermark = i.At, marks[set]
	p.held = d.heldAt(ctx, i.Seq, set)
	return p, nil
}

// heldAt yields what a set held as of a batch: for each resource the first
// entry recorded after that, or else what is held now.
func (d *Destination) heldAt(ctx context.Context, seq int64, set int) iter.Seq2[journal.Held, error] {
	return func(yield func(journal.Held, error) bool) {
		now, stopNow := iter.Pull2(d.journal.Held(ctx, "", ""))
		defer stopNow()
		before, stopBefore := iter.Pull2(d.journal.Past(ctx, "", "", seq))
		defer stopBefore()
		h, herr, more := now()
		p, perr, changed := before()
		for more || changed {
			if err := cmp.Or(herr, perr); err != nil {
				yield(journal.Held{}, err)
				return
			}
			row, known := h, true
			if changed && (!more || p.URI <= h.URI) {
				row, known = p.Held, p.Was != journal.WasAbsent && (p.Was == journal.WasForgotten || contains(p.Sets, set))
				for changed && perr == nil && p.URI == row.URI {
					p, perr, changed = before()
				}
			} else {
				known = contains(h.Sets, set)
			}
			if more && h.URI == row.URI {
				h, herr, more = now()
			}
			if known && !yield(row, nil) {
				return
			}
		}
	}
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

// keptContent opens content that the mirror has: among the versions it kept, or
// in the file of the resource, if that is what it holds now. It is that of the
// hashes and the length (-1: any), or fails with fs.ErrNotExist. A kept version
// that is damaged fails with a *vault.DamagedError, before a byte of the damage
// is handed out; a file is as it is, and has to be verified.
func (d *Destination) keptContent(ctx context.Context, uri string, hashes resourcesync.Hashes, length int64) (io.ReadCloser, error) {
	fits := func(h *journal.Held) bool {
		return content.Compare(h.Hashes, hashes) == content.Same && (length < 0 || length == h.Length)
	}
	if d.vault != nil {
		digest, err := d.keptDigest(ctx, uri, hashes, fits)
		if err != nil {
			return nil, err
		}
		if digest != (vault.Digest{}) {
			r, err := d.vault.Open(ctx, digest)
			if err == nil && length >= 0 && r.Size() != length {
				err = errors.Join(fs.ErrNotExist, r.Close())
			}
			if err == nil {
				return r, nil
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
	}
	hs, err := d.journal.Lookup(ctx, []string{uri})
	if err != nil {
		return nil, err
	}
	if hs[0].URI == "" || !fits(&hs[0]) {
		return nil, &fs.PathError{Op: "open version of", Path: uri, Err: fs.ErrNotExist}
	}
	r, err := d.store.Open(ctx, hs[0].Path)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// keptDigest returns under which digest the vault may have a content; zero:
// under none.
func (d *Destination) keptDigest(ctx context.Context, uri string, hashes resourcesync.Hashes, fits func(*journal.Held) bool) (digest vault.Digest, err error) {
	if stated := hashes.Get(resourcesync.SHA256); len(stated) == len(digest) {
		copy(digest[:], stated)
		_, ok, err := d.vault.Has(ctx, digest)
		if ok || err != nil {
			return digest, err
		}
		return vault.Digest{}, nil
	}
	for p, err := range d.journal.Past(ctx, uri, uri+"\x00", 0) {
		if err != nil {
			return digest, err
		}
		if p.Digest != (vault.Digest{}) && fits(&p.Held) {
			digest = p.Digest
		}
	}
	return digest, nil
}
