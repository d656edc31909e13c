package atompmh

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"time"

	"lockstep/intake"
	"lockstep/intake/harvest/ledger"
	"lockstep/intake/internal/future"
	"lockstep/intake/internal/listed"
)

// How many records are looked up and applied at a time: enough for a transaction to
// be cheap; fewer if each has to be fetched, and fewer if they have many resources.
const (
	feedBatch        = 4 << 10
	feedBatchFetched = 500
	feedBatchBytes   = 4 << 20
)

// whole reports whether all of the feed was read, so that the state of every record
// is known.
func (h *harvest) whole() bool {
	return (h.full || h.absence) && h.missing == nil && !h.disorder && !h.unsettled
}

// take brings the set in step with the entries that were read.
func (h *harvest) take(ctx context.Context) error {
	h.troubles()
	if h.catalogUnknown {
		if err := h.adopt(ctx); err != nil {
			return err
		}
		var err error
		if h.blank, err = h.isBlank(ctx); err != nil {
			return err
		}
	}
	// AP-CDL-03: absence proves something only if everything was read.
	h.absence = (h.absence || h.replaced) && h.whole() && !h.unreadable
	if err := h.settle(ctx); err != nil {
		return err
	}
	if h.older > 0 {
		h.list.Skipped(h.list.Name, fmt.Errorf("AP-HV-02: the feed went back in time: the entries of %d records are older than before, and apply from now on", h.older))
	}
	if err := h.applyAll(ctx); err != nil {
		return err
	}
	h.blank = false
	return h.dropGone(ctx)
}

// troubles reports problems with the feed as a whole (AP-HV-17).
func (h *harvest) troubles() {
	if err := h.future.Report(); err != nil {
		h.list.Skipped(h.list.Name, err)
	}
	if h.missing != nil {
		h.list.Illegible(h.missing.uri, h.missing.err)
	} else if g := h.old.Gap; g != nil && !h.full {
		h.list.Skipped(g.URI, fmt.Errorf("it has not been available since %s, and records that only it lists may be missing: %s", g.Since.Format(time.DateOnly), g.Cause))
	}
	if h.unreadable && h.absence {
		h.list.Illegible(h.list.Name, errors.New("some entries of the complete feed could not be read, so nothing was deleted for not being listed in this version of it"))
	}
}

// settle determines the changes to be applied, for each record by its newest entry.
func (h *harvest) settle(ctx context.Context) error {
	next, stop := func() (ledger.Row, error, bool) { return ledger.Row{}, nil, false }, func() {}
	if h.absence {
		next, stop = iter.Pull2(h.a.ledger.Rows(ctx, h.list.Set))
	}
	defer stop()
	row, err, more := next()
	var batch []newest
	size := 0
	flush := func() error {
		b := batch
		batch, size = batch[:0], 0
		return h.decideAll(ctx, b)
	}
	// AP-CDL-01: records in the ledger without an entry are gone.
	below := func(id string) error {
		for ; more && err == nil && row.ID < id; row, err, more = next() {
			if err := putAside(h.list, &row); err != nil {
				return err
			}
		}
		if more && err == nil && row.ID == id {
			row, err, more = next()
		}
		return err
	}
	gerr := groups(ctx, h.list, h.parts, &h.future, func(n *newest) error {
		if err := below(n.id); err != nil {
			return err
		}
		batch, size = append(batch, *n), size+len(n.said)
		if len(batch) < feedBatch && size < feedBatchBytes {
			return nil
		}
		return flush()
	})
	for ; gerr == nil && err == nil && more; row, err, more = next() {
		gerr = putAside(h.list, &row)
	}
	if gerr == nil {
		gerr = err
	}
	if gerr != nil {
		return gerr
	}
	return flush()
}

// putAside sorts a record that is gone without an entry.
func putAside(list *intake.Listing, r *ledger.Row) error {
	if r.Deleted {
		return nil
	}
	if err := list.Gone.Add(r.ID); err != nil {
		return err
	}
	list.Gone.Count += int64(len(r.Resources)) - 1
	return nil
}

// A newest is the newest entry of a record.
type newest struct {
	id      string // as in the ledger
	updated time.Time
	said    []byte
}

// groups calls f for the newest entry of each record, in the order of their ids
// (AP-CLS-03): the latest by updated, then by that of the feed it was in, then
// the one read last. AP-CLS-06: one that states the opposite at the same time makes
// it tied. If one of two times is in our future, the place in the feed decides.
func groups(ctx context.Context, list *intake.Listing, parts []feedPart, future *future.Times, f func(*newest) error) error {
	var best newest
	var in time.Time // updated of the feed it was in
	var at feedPlace
	has := false
	flush := func() error {
		if !has {
			return nil
		}
		t := parseStatement(best.said)
		list.Files.Add(int64(len(t.resources)))
		has = false
		b := best
		b.said = bytes.Clone(best.said)
		return f(&b)
	}
	err := list.Sorter.All(ctx, func(it *listed.Entry) error {
		i := bytes.IndexByte(it.URI, 0)
		updated := parseTime(it.URI[i+1:])
		part := &parts[it.Part]
		if has && string(it.URI[:i]) != best.id {
			if err := flush(); err != nil {
				return err
			}
		}
		deleted := it.Packed[0]&statesDeleted != 0
		if part.broken && deleted {
			return nil // a later entry of the record may be in the part that is missing
		}
		said := it.Packed
		place := placeOf(it, part)
		if has && !updated.Equal(best.updated) && (future.Has(updated) || future.Has(best.updated)) && place.isOlder(&at) {
			return nil
		}
		if has && updated.Equal(best.updated) {
			if part.updated.Before(in) {
				return nil
			}
			if part.updated.Equal(in) && deleted != (best.said[0]&statesDeleted != 0) {
				if deleted { // the active one states what to fetch
					best.said[0] |= statesTied
					return nil
				}
				said = bytes.Clone(it.Packed)
				said[0] |= statesTied
			} else if part.updated.Equal(in) && best.said[0]&statesTied != 0 {
				said = bytes.Clone(it.Packed)
				said[0] |= statesTied
			}
		}
		best = newest{string(it.URI[:i]), updated, append(best.said[:0], said...)}
		in, at, has = part.updated, place, true
		return nil
	})
	if err != nil {
		return err
	}
	return flush()
}

// A feedPlace is the place in a feed from which an entry was read.
type feedPlace struct {
	depth       int // depth of its document
	part, count uint32
}

func placeOf(it *listed.Entry, part *feedPart) feedPlace {
	return feedPlace{part.depth, it.Part, binary.BigEndian.Uint32(it.URI[len(it.URI)-4:])}
}

// isOlder reports whether an entry at p is likely older than one at q: in an older
// document, in an earlier reading of it, or after the other one in the same reading.
func (p *feedPlace) isOlder(q *feedPlace) bool {
	switch {
	case p.depth != q.depth:
		return p.depth > q.depth
	case p.part != q.part:
		return p.part < q.part
	}
	return p.count > q.count
}

// decideAll compares entries with the ledger, and sorts those that are to be applied.
func (h *harvest) decideAll(ctx context.Context, batch []newest) error {
	if len(batch) == 0 {
		return nil
	}
	ids := make([]string, len(batch))
	for i := range batch {
		ids[i] = batch[i].id
	}
	rows, err := h.lookup(ctx, ids)
	if err != nil {
		return err
	}
	for i := range batch {
		n := &batch[i]
		if !h.counts(n, &rows[i]) {
			continue
		}
		key := append(appendTime(h.key[:0], n.updated), n.id...)
		h.key = key
		if err := h.order.Add(key, 0, false, n.said); err != nil {
			return err
		}
	}
	return nil
}

// lookup returns the ledger's rows of records, each of which is looked up once before
// it is recorded.
func (p *applier) lookup(ctx context.Context, ids []string) ([]ledger.Row, error) {
	if p.blank {
		return make([]ledger.Row, len(ids)), nil
	}
	return p.a.ledger.Lookup(ctx, p.list.Set, ids)
}

// isBlank reports whether the ledger is empty.
func (p *applier) isBlank(ctx context.Context) (bool, error) {
	for _, err := range p.a.ledger.Rows(ctx, p.list.Set) {
		return false, err
	}
	return true, nil
}

// counts reports whether the newest entry of a record states something that was not
// applied before (AP-HV-03, 6).
func (h *harvest) counts(n *newest, row *ledger.Row) bool {
	deleted, tied := n.said[0]&statesDeleted != 0, n.said[0]&statesTied != 0
	switch {
	case row.ID == "":
		return true
	case n.updated.After(row.Updated):
		return true
	case n.updated.Before(row.Updated):
		if !h.whole() && !h.future.Has(row.Updated) { // AP-HV-02 needs all of the feed
			return false
		}
		h.older++
		return true
	case !h.full && !h.absence && n.updated.Before(h.mark) && row.Open == ledger.OpenNothing:
		return false // it was applied when the watermark was reached
	case tied:
		return true
	case deleted != row.Deleted:
		if !h.whole() {
			n.said[0] |= statesTied // the other entry was not read in this harvest
		}
		return true
	}
	return !deleted && (h.catalogUnknown || row.Open != ledger.OpenNothing && h.whole() || h.whole() && h.a.differs(n, row))
}

// differs reports whether an applied entry now has other representations.
func (a *Harvester) differs(n *newest, row *ledger.Row) bool {
	rs := parseStatement(n.said).resources
	if len(rs) == 0 && a.o.KeepVanished {
		return false
	}
	if len(rs) != len(row.Resources) {
		return true
	}
	for i := range rs {
		if rs[i] != row.Resources[i] {
			return true
		}
	}
	return false
}
