package destination

import (
	"context"
	"fmt"
	"time"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/dump"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/restore"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/wording"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// readSetList stages what there is: by the Resource List, or if that cannot be
// read, by the Resource Dump, if all of that can. r.listURI is what was read.
func (r *setRun) readSetList(ctx context.Context) (snap entries.Snapshot, err error) {
	st := r.set
	r.listURI = st.Lists
	failures, err := r.attempt(func() (err error) {
		snap, err = r.reader.ReadList(ctx, st.Lists)
		return err
	})
	if err != nil {
		return snap, err
	}
	if snap.Complete || len(failures) == 0 {
		r.outages.Works(string(st.ListCapability()))
		behind := r.set.behindDump(snap.At)
		if behind == nil || r.d.opts.Baseline {
			r.failAll(failures)
			return snap, nil
		}
		failures = append(failures, documentFailure{st.Lists, behind})
	} else {
		cause := gravest(failures)
		may := r.outages.MayReplace(string(st.ListCapability()), cause.err)
		may = may || len(r.noChanges) > 0 && r.outages.IsLasting(string(st.ChangesCapability())) // the set has waited long enough
		if st.Dump == "" || !may {
			if st.Dump != "" {
				r.warnWaiting(st.ListCapability(), resourcesync.ResourceDump, cause.uri)
			}
			r.failAll(failures)
			return snap, nil
		}
	}
	var dump entries.Snapshot
	others, err := r.attempt(func() (err error) {
		dump, err = r.reader.ReadList(ctx, st.Dump)
		return err
	})
	if err != nil {
		return snap, err
	}
	if !dump.Whole() || !dump.Dump {
		for _, f := range others {
			r.warn(f.uri, fmt.Sprintf("set %s: the Resource Dump cannot be used in place of the Resource List: %v", r.set.Name, f.err))
		}
		return r.reader.ReadList(ctx, st.Lists) // as far as it goes; what fails is reported now
	}
	r.listURI, r.listCause = st.Dump, failures
	return dump, nil
}

// behindDump returns an error if the Resource List, of an instant, is older than
// the Resource Dump that was applied in its place: then the dump is used again,
// until the list has caught up. Neither says that the Source went back in time.
func (st *setState) behindDump(at resourcesync.Datetime) error {
	if st.Dump == "" || st.ListFrom != st.Dump || at.IsZero() || !saved.Time(at).Before(st.ListAt) {
		return nil
	}
	return fmt.Errorf("it is as of %s, and the Resource Dump that was applied in its place as of %s", wording.Time(at.Time()), wording.Time(st.ListAt))
}

// useDump reports that the Resource Dump is used in place of the Resource List.
func (r *setRun) useDump(at resourcesync.Datetime) {
	if len(r.listCause) == 0 {
		return
	}
	f := gravest(r.listCause)
	unproven := ""
	if !at.IsZero() {
		unproven = fmt.Sprintf("it is as of %s", wording.Time(at.Time()))
	}
	r.fallBack(Fallback{Missing: string(r.set.ListCapability()), URI: f.uri, Cause: f.err.Error(),
		Used: string(resourcesync.ResourceDump), UsedURI: r.listURI, Unproven: unproven})
}

// readSetChanges stages the changes since an instant: by the Change List, or if
// that cannot be read, by the Change Dump, if all of that can and reaches back
// that far. Where a fallback may be used, but not that one, r.noChanges says
// why there are no changes, and nothing is reported yet.
func (r *setRun) readSetChanges(ctx context.Context, since resourcesync.Datetime, state *setState, poll bool) (c entries.Chain, err error) {
	st := r.set
	if st.Changes == "" {
		return entries.Chain{Complete: true}, nil
	}
	read := func() (err error) {
		c, err = r.reader.ReadChanges(ctx, since, &state.Set, poll)
		return err
	}
	failures, err := r.attempt(read)
	if err != nil {
		return c, err
	}
	if c.Complete {
		r.outages.Works(string(st.ChangesCapability()))
	}
	if c.Vanished != nil {
		failures = append(failures, documentFailure{st.Changes, c.Vanished})
	}
	if c.Complete || len(failures) == 0 {
		r.failAll(failures)
		return c, nil
	}
	cause := gravest(failures)
	substitute := st.Lists
	if may := r.outages.MayReplace(string(st.ChangesCapability()), cause.err); !may || st.ChangeDump == "" && substitute == "" {
		if !may && (st.ChangeDump != "" || substitute != "") {
			instead := st.ListCapability()
			if st.ChangeDump != "" {
				instead = resourcesync.ChangeDump
			}
			r.warnWaiting(st.ChangesCapability(), instead, cause.uri)
		}
		r.failAll(r.unlessVanished(&c, failures))
		return c, nil
	}
	if st.ChangeDump != "" {
		if alt, ok, err := r.readOtherChanges(ctx, since, state, poll, &cause); ok || err != nil {
			return alt, err
		}
		r.stage.DiscardChanges()
		if failures, err = r.attempt(read); err != nil { // as far as it goes
			return c, err
		}
		if c.Vanished != nil {
			failures = append(failures, documentFailure{st.Changes, c.Vanished})
		}
		if c.Complete || len(failures) == 0 {
			r.failAll(failures)
			return c, nil
		}
	}
	if c.Vanished != nil && !r.compared || substitute == "" { // all is going to be compared, and then they are read again
		r.failAll(r.unlessVanished(&c, failures))
		return c, nil
	}
	r.noChanges = failures
	return c, nil
}

// unlessVanished is failures without the one that the caller deals with.
func (r *setRun) unlessVanished(c *entries.Chain, failures []documentFailure) []documentFailure {
	if c.Vanished != nil {
		return failures[:len(failures)-1]
	}
	return failures
}

// readOtherChanges stages the changes from the Change Dump in place of the
// Change List. What is remembered of the Change List does not change.
func (r *setRun) readOtherChanges(ctx context.Context, since resourcesync.Datetime, state *setState, poll bool, cause *documentFailure) (c entries.Chain, ok bool, err error) {
	st := r.set
	other := *state
	other.Changes, other.Open = st.ChangeDump, nil
	other.Cursor, other.Seen, other.SeenTime, other.History, other.Appends = saved.Cursor{}, nil, time.Time{}, time.Time{}, false
	r.stage.DiscardChanges()
	failures, err := r.attempt(func() (err error) {
		c, err = r.reader.ReadChanges(ctx, since, &other.Set, poll)
		return err
	})
	if err != nil {
		return c, false, err
	}
	if gap := c.GapAfter(since); !c.Whole() || gap != "" {
		if gap != "" {
			r.warn(st.ChangeDump, fmt.Sprintf("set %s: the Change Dump cannot be used in place of the Change List: %s", st.Name, gap))
		}
		for _, f := range failures {
			r.warn(f.uri, fmt.Sprintf("set %s: the Change Dump cannot be used in place of the Change List: %v", st.Name, f.err))
		}
		return c, false, nil
	}
	r.failAll(failures)
	c.Other = true
	// A Change Dump that was read before is not read again, and then has no
	// instant; nor does that prove that nothing has changed since.
	unproven := "changes that it does not list are unknown"
	if end := saved.Latest(saved.Latest(saved.Time(c.Until), saved.Time(c.Newest)), saved.Latest(st.Watermark, st.ListAt)); !end.IsZero() {
		unproven = fmt.Sprintf("changes after %s are unknown", wording.Time(end))
	}
	r.fallBack(Fallback{Missing: string(st.ChangesCapability()), URI: cause.uri, Cause: cause.err.Error(),
		Used: string(resourcesync.ChangeDump), UsedURI: st.ChangeDump, Unproven: unproven})
	return c, true, nil
}

// isFresh reports whether a list of an instant is as new as what is known of the
// set: what it does not name is gone, and not only unknown to it.
func (r *setRun) isFresh(at resourcesync.Datetime) bool {
	st := r.set
	known := saved.Latest(st.Watermark, st.ListAt)
	if known.IsZero() && r.counts[st.Number] == 0 {
		return true
	}
	return !at.IsZero() && !saved.Time(at).Before(known)
}

// useList reports that the list replaces the changes that cannot be read, if it
// is fresh; otherwise that they cannot be read. It returns the chain to
// continue with.
func (r *setRun) useList(snap *entries.Snapshot, c *entries.Chain) entries.Chain {
	f := gravest(r.noChanges)
	if !snap.Whole() || !r.isFresh(snap.At) {
		r.failAll(r.noChanges)
		if snap.Whole() {
			r.warn(r.listURI, r.notFresh(snap.At))
		}
		unknown := *c
		unknown.Complete, unknown.Vanished = false, nil
		return unknown
	}
	r.reportList(f, snap.At)
	return entries.Chain{Complete: true}
}

func (r *setRun) reportList(f documentFailure, at resourcesync.Datetime) {
	used := r.set.ListCapability()
	if r.listURI == r.set.Dump && r.set.Dump != "" {
		used = resourcesync.ResourceDump
	}
	r.fallBack(Fallback{Missing: string(r.set.ChangesCapability()), URI: f.uri, Cause: f.err.Error(), Used: string(used), UsedURI: r.listURI,
		Unproven: fmt.Sprintf("changes after %s are unknown", wording.Time(at.Time()))})
}

func (r *setRun) notFresh(at resourcesync.Datetime) string {
	return fmt.Sprintf("set %s: %s cannot be used in place of the changes: it is of %s, the mirror is as of %s",
		r.set.Name, fetch.Printable(r.listURI), wording.Time(at.Time()), wording.Time(saved.Latest(r.set.Watermark, r.set.ListAt)))
}

// compareInstead compares all of the set, because its changes cannot be read;
// but not if the list is as it was when that was last done.
func (r *setRun) compareInstead(ctx context.Context) error {
	st := r.set
	same, err := r.sameList(ctx)
	switch {
	case err != nil:
		return err
	case !same:
		return r.baseline(ctx, false)
	}
	at := resourcesync.NewDatetime(st.ListAt)
	if !r.isFresh(at) {
		r.failAll(r.noChanges)
		r.warn(r.listURI, r.notFresh(at))
	} else {
		r.reportList(gravest(r.noChanges), at)
	}
	r.report.RaiseMode(ModeNone, st.viaList())
	return r.retry(ctx)
}

// sameList reports whether the list is as it was when it was last read: the
// Resource List, or the Resource Dump that was read in place of it and still
// has to be.
func (r *setRun) sameList(ctx context.Context) (bool, error) {
	st := r.set
	r.listURI = st.Lists
	if st.ListFrom == "" || st.ListFrom != st.Dump {
		if st.ListFrom != "" {
			return false, nil
		}
		return r.reader.ListUnchanged(ctx, &st.Set)
	}
	doc, err := r.reader.Open(ctx, st.Lists, saved.Validators{})
	switch {
	case err == nil:
		at := doc.Header.At
		cerr := doc.Close()
		if err = st.behindDump(at); cerr != nil || err == nil {
			return false, cerr
		}
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case !r.outages.MayReplace(string(st.ListCapability()), err):
		return false, nil
	}
	dump := *st
	dump.Lists = st.Dump
	same, derr := r.reader.ListUnchanged(ctx, &dump.Set)
	if same && derr == nil {
		r.listURI, r.listCause = st.Dump, []documentFailure{{st.Lists, err}}
		r.useDump(resourcesync.NewDatetime(st.ListAt))
	}
	return same, derr
}

// lookInPackages looks in the packages of dumps for the resources that this run
// could not get from their addresses: what a list or a change describes may be
// there. A dump that was searched before is searched again once it has changed.
func (r *setRun) lookInPackages(ctx context.Context) error {
	st, o := r.set, &r.d.opts
	if len(r.stale) == 0 || o.DryRun || o.Via == ViaList || r.past != nil || st.Foreign != nil || r.d.compare {
		return nil
	}
	r.stage.Reset()
	owed, err := r.stagePending(ctx)
	if err != nil || owed == 0 {
		return err
	}
	found := false
	for _, doc := range []struct {
		uri            string
		kind, manifest resourcesync.Capability
	}{
		{st.ChangeDump, resourcesync.ChangeDump, resourcesync.ChangeDumpManifest},
		{st.Dump, resourcesync.ResourceDump, resourcesync.ResourceDumpManifest},
	} {
		if doc.uri == "" || r.searched(ctx, doc.uri) {
			continue
		}
		entries, err := r.reader.PackagesOf(ctx, doc.uri, doc.kind)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			r.warn(doc.uri, fmt.Sprintf("set %s: the packages of the %s cannot be searched: %v", st.Name, wording.Capability(string(doc.kind)), err))
			continue
		}
		var refs []dump.Ref
		for i := range entries {
			if ref := r.reader.RefOf(&entries[i]); ref.Refused == "" && (entries[i].Until.IsZero() || !saved.Time(entries[i].Until).Before(r.began) || r.began.IsZero()) {
				refs = append(refs, ref)
			}
		}
		if len(refs) == 0 || len(refs) > restore.MaxPackages {
			continue
		}
		if err := r.reader.ReadHints(ctx, refs, doc.manifest); err != nil {
			return err
		}
		found = true
	}
	if !found {
		return nil
	}
	_, err = r.carryOut(ctx, work{Mode: ModeNone, Via: st.viaList(), Searched: true, Final: true})
	return err
}

// stagePending stages what this run could not get.
func (r *setRun) stagePending(ctx context.Context) (n int, err error) {
	for o, err := range r.d.journal.Owed(ctx, r.set.Number) {
		if err != nil {
			return n, err
		}
		if r.stale[o.URI] == nil {
			continue
		}
		w, _, err := desired.Decode(o.URI, string(o.Entry))
		if err != nil {
			return n, err
		}
		if w.Gone || w.Unconfirmed || !content.HasKnown(w.Hashes) || w.Change == resourcesync.UnknownChange {
			continue
		}
		w.Transient, w.NotBefore = false, time.Time{}
		w.Class, w.Refused, w.Member, w.ManifestPackage = desired.Pending, r.reader.Refuse(w.URI), desired.Member{}, 0
		n++
		if err := r.stage.Add(ctx, w); err != nil {
			return n, err
		}
	}
	return n, nil
}

// searched reports whether a dump is as it was when it was last searched, and
// notes how it is.
func (r *setRun) searched(ctx context.Context, uri string) bool {
	o := r.outages
	is, err := discover.Open(ctx, r.d.client, uri, discover.Validators{ETag: o.Searched[uri].ETag, LastModified: o.Searched[uri].Modified})
	if err != nil {
		return true // not modified, or not to be read
	}
	_ = is.Close() // its validators were of interest
	if v := (saved.Validators{ETag: is.ETag, Modified: is.LastModified}); v != (saved.Validators{}) {
		o.Search(uri, v)
	}
	return false
}
