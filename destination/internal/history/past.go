package history

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"slices"
	"time"

	"lockstep/blob"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
	"lockstep/vault"
)

// A State is the state of one set of a mirror at an instant of the mirror's own
// clock, as the last run that had completed by then left it.
type State struct {
	Since     time.Time // earliest instant with a known state; zero: none
	Watermark time.Time // of the set, on the Source's clock; zero: unknown

	// Held yields the rows of the resources that the set held, in byte order of the
	// URIs. A resource whose row has no Path may have been held: its versions of
	// that time were dropped. Hashes may be empty if the file was in doubt.
	Held iter.Seq2[journal.Held, error]
}

// ErrUnknown reports that the state of a mirror at an instant is unknown: it stored
// no versions then, or they were dropped.
var ErrUnknown = errors.New("the mirror kept no versions then")

// At returns the state of a set of a mirror at an instant of the mirror's own
// clock. It returns ErrUnknown if the mirror stored no versions then; Since is set
// even in that case. An interrupted run must have been repaired before.
func At(ctx context.Context, j journal.Journal, at time.Time, set int) (State, error) {
	var d document
	if _, err := saved.Load(ctx, j, docName, &d); err != nil {
		return State{}, err
	}
	if d.Keep.None {
		d = document{}
	}
	s := State{Since: d.Since}
	var i journal.Instant
	if d.begun() {
		var err error
		if i, err = j.Instant(ctx, at); err != nil {
			return s, err
		}
	}
	if i.At.IsZero() {
		return s, ErrUnknown
	}
	marks, err := decodeMarks(i.Note)
	if err != nil {
		return s, err
	}
	s.Watermark, s.Held = marks[set], heldAt(ctx, j, i.Seq, set)
	return s, nil
}

// heldAt yields the rows of a set as of a batch: for each resource the first entry
// recorded after that batch, otherwise the current row.
func heldAt(ctx context.Context, j journal.Journal, seq int64, set int) iter.Seq2[journal.Held, error] {
	return func(yield func(journal.Held, error) bool) {
		now, stopNow := iter.Pull2(j.Held(ctx, "", ""))
		defer stopNow()
		before, stopBefore := iter.Pull2(j.Past(ctx, "", "", seq))
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
				row, known = p.Held, p.Was != journal.WasAbsent && (p.Was == journal.WasForgotten || slices.Contains(p.Sets, set))
				for changed && perr == nil && p.URI == row.URI {
					p, perr, changed = before()
				}
			} else {
				known = slices.Contains(h.Sets, set)
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

// Content opens the content of resources that a mirror holds or has stored as
// versions.
type Content struct {
	Journal  journal.Journal
	Files    blob.Store
	Versions *vault.Vault // nil: only current content
}

// Open opens content with the given hashes and length (-1: any), from the versions,
// or from the file of the resource if that is what the mirror holds now. The error
// is fs.ErrNotExist if there is none. Reading a damaged version returns a
// *vault.DamagedError before any damaged byte; a file is returned as it is and has
// to be verified.
func (c *Content) Open(ctx context.Context, uri string, hashes resourcesync.Hashes, length int64) (io.ReadCloser, error) {
	fits := func(h *journal.Held) bool {
		return content.Compare(h.Hashes, hashes) == content.Same && (length < 0 || length == h.Length)
	}
	if c.Versions != nil {
		digest, err := c.digest(ctx, uri, hashes, fits)
		if err != nil {
			return nil, err
		}
		if digest != (vault.Digest{}) {
			r, err := c.Versions.Open(ctx, digest)
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
	hs, err := c.Journal.Lookup(ctx, []string{uri})
	if err != nil {
		return nil, err
	}
	if hs[0].URI == "" || !fits(&hs[0]) {
		return nil, &fs.PathError{Op: "open version of", Path: uri, Err: fs.ErrNotExist}
	}
	r, err := c.Files.Open(ctx, hs[0].Path)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// digest returns the digest under which the version store may have the content;
// zero: it has none.
func (c *Content) digest(ctx context.Context, uri string, hashes resourcesync.Hashes, fits func(*journal.Held) bool) (digest vault.Digest, err error) {
	if stated := hashes.Get(resourcesync.SHA256); len(stated) == len(digest) {
		copy(digest[:], stated)
		_, ok, err := c.Versions.Has(ctx, digest)
		if ok || err != nil {
			return digest, err
		}
		return vault.Digest{}, nil
	}
	for p, err := range c.Journal.Past(ctx, uri, uri+"\x00", 0) {
		if err != nil {
			return digest, err
		}
		if p.Digest != (vault.Digest{}) && fits(&p.Held) {
			digest = p.Digest
		}
	}
	return digest, nil
}
