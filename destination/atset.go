package destination

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/history"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/wording"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// A state is what a set was at an instant, as it is staged.
type state struct {
	asOf      time.Time             // the instant it is of
	at        resourcesync.Datetime // of the list it is made from; zero: of none
	watermark time.Time             // all changes before are in it, by the Source's documents; zero: unknown
	via       string
	why       string             // it is not of the instant asked for; empty: it is
	dumps     []entries.Archived // where contents of that time may be
	during    bool               // the list was still being taken then: what is in it may be later
	hinted    bool               // it is staged where they lie in packages
	insist    bool               // that is to be looked for
}

// travel brings a set to its state at the requested instant (RA-DST-02): using
// what the Source has kept of its past, or else what the mirror has.
func (r *setRun) travel(ctx context.Context) error {
	r.compared = true
	none := &NoPastError{Set: r.set.Name, At: r.past.at}
	var st *state
	if !r.past.only {
		var err error
		if st, err = stateAt(ctx, r.reader, r.past.at, none); err != nil {
			return err
		}
	}
	if st == nil || st.why != "" {
		own, err := r.ownState(ctx, none)
		switch {
		case err != nil:
			return err
		case own != nil:
			if st != nil {
				r.warn(r.set.URI, fmt.Sprintf("set %s: the Source does not know its state then: %s; this is the state of the mirror", r.set.Name, st.why))
			}
			st = own
		case st == nil:
			r.untold++
			return none
		default:
			r.reader.Fail(r.set.URI, fmt.Errorf("set %s: its state at %s is not known: %s; it is as of %s", r.set.Name, wording.Time(r.past.at), st.why, wording.Time(st.asOf)))
		}
	}
	r.listAt = st.at
	again, err := r.becomeState(ctx, st)
	if again && err == nil && !st.hinted && !r.d.opts.DryRun {
		unchanged := r.report.Unchanged // the second look at them counts for nothing
		st.insist = true
		_, err = r.becomeState(ctx, st)
		r.report.Unchanged = unchanged
	}
	if err == nil {
		r.set.AsOf = st.asOf.UTC()
	}
	return err
}

// becomeState applies a staged state. It reports whether unavailable contents
// may be in packages that were not searched.
func (r *setRun) becomeState(ctx context.Context, st *state) (again bool, err error) {
	return r.carryOut(ctx, work{
		mode: ModeBaseline, via: st.via, complete: true, files: true, prune: true, past: st,
		done: func() {
			r.set.RestoreTo(st.watermark, saved.Time(st.at))
			r.set.Complete, r.set.Selection = !st.watermark.IsZero(), r.d.selects.Key
		},
	})
}

// ownState stages the past state of the set from the history of the mirror
// itself, or of the mirror that is the Source. It returns nil if the history
// does not cover the instant, and records in none when the history begins.
func (r *setRun) ownState(ctx context.Context, none *NoPastError) (*state, error) {
	number := r.set.Number
	if r.past.only {
		number = r.set.SourceNumber
	}
	p, err := history.At(ctx, r.past.from.journal, r.past.at, number)
	switch {
	case errors.Is(err, history.ErrUnknown):
		if !p.Since.IsZero() && (none.Earliest.IsZero() || p.Since.Before(none.Earliest)) {
			none.Earliest, none.Err = p.Since, nil
		}
		return nil, nil
	case err != nil:
		return nil, err
	}
	r.stage.Reset()
	doc := r.stage.AddDocument()
	var pos int64
	for h, err := range p.Held {
		if err != nil {
			return nil, err
		}
		w := desired.Resource{URI: h.URI, Lastmod: resourcesync.NewDatetime(h.Lastmod), Length: h.Length, Hashes: h.Hashes, Rank: desired.Rank{Class: desired.Listed, Doc: doc, Pos: pos}}
		switch {
		case h.Path == "":
			w.Refused = "its version of that time was dropped"
		case len(h.Hashes) == 0:
			w.Length = -1 // it was in doubt even then
		}
		pos++
		if err := r.stage.Add(ctx, w); err != nil {
			return nil, err
		}
	}
	return &state{asOf: r.past.at, watermark: p.Watermark, via: ViaHistory}, nil
}

// stateAt stages what the set was at an instant, by what the Source has kept of
// its past: exactly, if that can be proven, else as of the last list before
// (RA-DST-02). It returns nil where there is none, and fills in none.
func stateAt(ctx context.Context, r *entries.Reader, instant time.Time, none *NoPastError) (*state, error) {
	fail := r.Fail
	defer func() { r.Fail = fail }()
	r.Fail = func(uri string, err error) { r.Warn(uri, err.Error()) } // the rest may do without it
	lists, err := r.Snapshots(ctx)
	if err != nil {
		return nil, err
	}
	docs, err := r.History(ctx)
	if err != nil {
		return nil, err
	}
	at := resourcesync.NewDatetime(instant)
	early := before(lists, at, none)
	best, bestAt, staged := (*state)(nil), -1, -1
	for i := range early {
		b := &early[i]
		whole := b.Completed.Compare(at) <= 0
		if whole && best != nil {
			continue // from an earlier one there is the same gap
		}
		st, err := stageFrom(ctx, r, b, docs, at)
		var bad *entries.UnreadError
		switch {
		case errors.As(err, &bad):
			r.Warn(b.Uri, fmt.Sprintf("set %s: %v; an earlier list is looked for", r.Set.Name, bad))
			none.Err = bad
			continue
		case err != nil:
			return nil, err
		}
		st.dumps = slices.Concat(lists, docs)
		if staged = i; st.why == "" {
			return st, nil
		}
		if best == nil || best.asOf.Before(st.asOf) {
			best, bestAt = st, i
		}
	}
	if best != nil && staged != bestAt {
		again, err := stageFrom(ctx, r, &early[bestAt], docs, at)
		if err != nil {
			return nil, err
		}
		again.dumps = best.dumps
		best = again
	}
	return best, nil
}

// before returns the lists that are not later than an instant, the last one
// first. Those that were being taken then come last: what is in them may be
// later. In none it notes the earliest of all.
func before(lists []entries.Archived, at resourcesync.Datetime, none *NoPastError) []entries.Archived {
	var early, during []entries.Archived
	for _, l := range slices.Backward(lists) {
		if t := saved.Time(l.At); none.Earliest.IsZero() || t.Before(none.Earliest) {
			none.Earliest = t
		}
		switch {
		case l.At.Compare(at) > 0:
		case l.Completed.Compare(at) > 0:
			during = append(during, l)
		default:
			early = append(early, l)
		}
	}
	return append(early, during...)
}

// stageFrom stages a list and the changes from there to an instant. If the
// changes have a gap, the state is that of the list, and says why.
func stageFrom(ctx context.Context, r *entries.Reader, b *entries.Archived, docs []entries.Archived, at resourcesync.Datetime) (*state, error) {
	snap, err := r.StageList(ctx, b)
	if err != nil {
		return nil, err
	}
	base := snap.At
	if base.IsZero() || b.Approx {
		base = b.At
	}
	if base.Compare(at) > 0 {
		return nil, &entries.UnreadError{Err: fmt.Errorf("read %s: it is of %s by now", fetch.Printable(b.Uri), wording.Time(base.Time()))}
	}
	if said := b.At; !b.Current && !snap.Index && !snap.At.IsZero() && !b.Dated && !said.IsZero() && said.Compare(snap.At) != 0 { // RA-DOC-10
		r.Warn(b.Uri, fmt.Sprintf("read %s: it is of %s, the archive says %s; the document is right", fetch.Printable(b.Uri), wording.Time(snap.At.Time()), wording.Time(said.Time())))
	}
	st := &state{asOf: base.Time(), at: base, watermark: saved.Time(base), via: ViaList, during: b.Completed.Compare(at) > 0}
	if snap.Dump {
		st.via = ViaDump
	}
	exact := base.Compare(at) == 0
	if len(docs) == 0 {
		if !exact {
			st.why = "no document lists changes since " + wording.Time(base.Time())
		}
		return st, nil
	}
	c, err := r.ReadChangesBetween(ctx, base, at, docs)
	if err != nil {
		return nil, err
	}
	if c.Gap {
		r.Stage.DiscardChanges()
		if !exact {
			st.why = fmt.Sprintf("its changes since %s are known without a gap only up to %s", wording.Time(base.Time()), wording.Time(c.Until.Time()))
		}
		return st, nil
	}
	st.asOf, st.watermark = at.Time(), sureUntil(docs, base, &c, at.Time())
	if b.Approx {
		st.watermark = time.Time{} // it may be of an earlier time (RA-VER-02)
		r.Warn(b.Uri, fmt.Sprintf("set %s: %s does not say of when it is; that it is of %s is a guess", r.Set.Name, fetch.Printable(b.Uri), wording.Time(base.Time())))
	}
	return st, nil
}

// sureUntil returns the instant up to which a state as of at is certainly
// complete: a document that is still growing may yet list changes that happened
// before at. It never reads the clock of this machine (RS-DST-27).
func sureUntil(docs []entries.Archived, base resourcesync.Datetime, c *entries.Chain, at time.Time) time.Time {
	w := saved.Latest(saved.Time(base), saved.Time(c.Newest))
	for i := range docs {
		if until := saved.Time(docs[i].Closed(time.Now())); !until.After(at) {
			w = saved.Latest(w, until)
		} else if from := saved.Time(docs[i].From); !from.After(at) {
			w = at
		}
	}
	if w.After(at) {
		return at
	}
	return w
}
