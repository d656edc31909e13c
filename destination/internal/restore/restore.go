// Package restore brings a set to its state at an instant of the past, which it finds in
// what the Source has kept of its past, or in the history of a mirror.
package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lockstep/destination/internal/archives"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/history"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/stage"
	"lockstep/destination/internal/wording"
	"lockstep/destination/journal"
	"lockstep/destination/report"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// A State is the state of a set at an instant. Its resources are in the stage.
type State struct {
	AsOf      time.Time             // the instant of the state
	At        resourcesync.Datetime // of the list that the state was made from; zero: no list
	Watermark time.Time             // all changes before it are included, by the Source's documents; zero: unknown
	Via       string                // how the state was found, as a report names it
	Inexact   string                // why AsOf is not the requested instant; empty: it is
	Dumps     []entries.Archived    // dumps that may have contents of that time
	During    bool                  // the list was still being taken at the instant: its entries may be later
	Hinted    bool                  // the contents of the packages are staged
	Insist    bool                  // search the packages in any case
}

// MayHint reports whether there are packages that have not been searched.
func (st *State) MayHint() bool {
	return !st.Hinted && slices.ContainsFunc(st.Dumps, func(d entries.Archived) bool {
		return d.Kind == resourcesync.ResourceDump || d.Kind == resourcesync.ChangeDump
	})
}

// fromMirror stages the state of a set at an instant from the history of a mirror,
// whose Journal is j. It returns nil if the history does not cover the instant, and
// then records in none when the history begins.
func fromMirror(ctx context.Context, out *stage.Stage, j journal.Journal, set int, at time.Time, none *report.NoPastError) (*State, error) {
	p, err := history.At(ctx, j, at, set)
	switch {
	case errors.Is(err, history.ErrUnknown):
		if !p.Since.IsZero() && (none.Earliest.IsZero() || p.Since.Before(none.Earliest)) {
			none.Earliest, none.Err = p.Since, nil
		}
		return nil, nil
	case err != nil:
		return nil, err
	}
	out.Reset()
	doc := out.AddDocument()
	var pos int64
	for h, err := range p.Held {
		if err != nil {
			return nil, err
		}
		w := desired.Resource{URI: h.URI, Lastmod: resourcesync.NewDatetime(h.Lastmod), Length: h.Length, Hashes: h.Hashes, Undescribed: true, Rank: desired.Rank{Class: desired.Listed, Doc: doc, Pos: pos}}
		switch {
		case h.Path == "":
			w.Refused = "its version of that time was dropped"
		case len(h.Hashes) == 0:
			w.Length = -1 // the file was already in doubt then
		}
		pos++
		if err := out.Add(ctx, w); err != nil {
			return nil, err
		}
	}
	return &State{AsOf: at, Watermark: p.Watermark, Via: report.ViaHistory}, nil
}

// fromSource stages the state of a set at an instant from what the Source has kept of
// its past: exactly, if that can be proven, else as of the last list before
// (RA-DST-02). It returns nil if there is no such list, and records the reason in
// none.
func fromSource(ctx context.Context, r *entries.Reader, instant time.Time, none *report.NoPastError) (*State, error) {
	fail := r.Fail
	defer func() { r.Fail = fail }()
	r.Fail = func(uri string, err error) { r.Warn(uri, err.Error()) } // the other documents may suffice
	lists, err := archives.Snapshots(ctx, r)
	if err != nil {
		return nil, err
	}
	docs, err := archives.History(ctx, r)
	if err != nil {
		return nil, err
	}
	at := resourcesync.NewDatetime(instant)
	early := before(lists, at, none)
	best, bestAt, staged := (*State)(nil), -1, -1
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
		st.Dumps = slices.Concat(lists, docs)
		if staged = i; st.Inexact == "" {
			return st, nil
		}
		if best == nil || best.AsOf.Before(st.AsOf) {
			best, bestAt = st, i
		}
	}
	if best != nil && staged != bestAt {
		again, err := stageFrom(ctx, r, &early[bestAt], docs, at)
		if err != nil {
			return nil, err
		}
		again.Dumps = best.Dumps
		best = again
	}
	return best, nil
}

// before returns the lists that are not later than an instant, the last one first.
// Lists that were being taken at that instant come last, because their entries may be
// later. It records the earliest instant of all lists in none.
func before(lists []entries.Archived, at resourcesync.Datetime, none *report.NoPastError) []entries.Archived {
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

// takenWithin is how long after the at of a list its parts may have been begun for it to be
// a list of one instant. A list whose parts are further apart shares some with earlier
// lists; what the others say of an instant before them is not known.
const takenWithin = time.Second

// stageFrom stages a list and the changes from there to an instant. If the changes
// have a gap, the state is that of the list and Inexact gives the reason.
func stageFrom(ctx context.Context, r *entries.Reader, b *entries.Archived, docs []entries.Archived, at resourcesync.Datetime) (*State, error) {
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
	if latest := snap.Latest.Time(); latest.After(at.Time().Add(takenWithin)) {
		return nil, &entries.UnreadError{Err: fmt.Errorf("read %s: some of its parts are of %s", fetch.Printable(b.Uri), wording.Time(latest))}
	}
	if said := b.At; !b.Current && !snap.Index && !snap.At.IsZero() && !b.Dated && !said.IsZero() && said.Compare(snap.At) != 0 { // RA-DOC-10
		r.Warn(b.Uri, fmt.Sprintf("read %s: it is of %s, the archive says %s; the document is right", fetch.Printable(b.Uri), wording.Time(snap.At.Time()), wording.Time(said.Time())))
	}
	st := &State{AsOf: base.Time(), At: base, Watermark: saved.Time(base), Via: report.ViaList, During: b.Completed.Compare(at) > 0}
	if snap.Dump {
		st.Via = report.ViaDump
	}
	exact := base.Compare(at) == 0
	if len(docs) == 0 {
		if !exact {
			st.Inexact = "no document lists changes since " + wording.Time(base.Time())
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
			st.Inexact = fmt.Sprintf("its changes since %s are known without a gap only up to %s", wording.Time(base.Time()), wording.Time(c.Until.Time()))
		}
		return st, nil
	}
	st.AsOf, st.Watermark = at.Time(), sureUntil(docs, base, &c, at.Time())
	if b.Approx {
		st.Watermark = time.Time{} // it may be of an earlier time (RA-VER-02)
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
