package substitute

import (
	"context"
	"fmt"
	"time"

	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/wording"
	"lockstep/destination/report"
	"lockstep/resourcesync"
)

// ReadChanges stages the changes since an instant: by the Change List, or if that
// cannot be read, by the Change Dump, if all of that can and reaches back that far.
// Of state it uses what was read before. Where only a list can replace the changes,
// ReplacesChanges is true afterwards, and no failure is reported yet.
func (d *Documents) ReadChanges(ctx context.Context, since resourcesync.Datetime, state *saved.Set, poll bool) (c entries.Chain, err error) {
	st := d.Set
	if st.Changes == "" {
		return entries.Chain{Complete: true}, nil
	}
	read := func() ([]failure, error) {
		failures, err := d.attempt(func() (err error) {
			c, err = d.Reader.ReadChanges(ctx, since, state, poll)
			return err
		})
		return failures, err
	}
	failures, err := read()
	if err != nil {
		return c, err
	}
	kind := string(st.ChangesCapability())
	if c.Complete {
		d.Outages.Works(kind)
	}
	if c.Vanished != nil {
		failures = append(failures, failure{st.Changes, c.Vanished})
	}
	if c.Complete || len(failures) == 0 {
		d.fail(failures)
		return c, nil
	}
	cause := gravest(failures)
	if may := d.Outages.MayReplace(kind, cause.err); !may || st.ChangeDump == "" && st.Lists == "" {
		if !may && (st.ChangeDump != "" || st.Lists != "") {
			instead := st.ListCapability()
			if st.ChangeDump != "" {
				instead = resourcesync.ChangeDump
			}
			d.warnWaiting(st.ChangesCapability(), instead, cause.uri)
		}
		d.fail(unlessVanished(&c, failures))
		return c, nil
	}
	if st.ChangeDump != "" {
		if other, ok, err := d.readOther(ctx, since, state, poll, &cause); ok || err != nil {
			return other, err
		}
		d.Reader.Stage.DiscardChanges()
		if failures, err = read(); err != nil { // what can be read of it
			return c, err
		}
		if c.Vanished != nil {
			failures = append(failures, failure{st.Changes, c.Vanished})
		}
		if c.Complete || len(failures) == 0 {
			d.fail(failures)
			return c, nil
		}
	}
	if c.Vanished != nil && !d.Compared || st.Lists == "" { // the caller compares everything, and then reads them again
		d.fail(unlessVanished(&c, failures))
		return c, nil
	}
	d.changes = failures
	return c, nil
}

// unlessVanished returns failures without that of a part that no longer exists,
// which the caller reports.
func unlessVanished(c *entries.Chain, failures []failure) []failure {
	if c.Vanished != nil {
		return failures[:len(failures)-1]
	}
	return failures
}

// readOther stages the changes from the Change Dump in place of the Change List. What
// is recorded of the Change List does not change.
func (d *Documents) readOther(ctx context.Context, since resourcesync.Datetime, state *saved.Set, poll bool, cause *failure) (c entries.Chain, ok bool, err error) {
	st := d.Set
	other := *state
	other.Changes, other.Open = st.ChangeDump, nil
	other.Cursor, other.Seen, other.SeenTime, other.History, other.Appends = saved.Cursor{}, nil, time.Time{}, time.Time{}, false
	d.Reader.Stage.DiscardChanges()
	failures, err := d.attempt(func() (err error) {
		c, err = d.Reader.ReadChanges(ctx, since, &other, poll)
		return err
	})
	if err != nil {
		return c, false, err
	}
	if gap := c.GapAfter(since); !c.Whole() || gap != "" {
		warn := func(uri, why string) {
			d.Warn(uri, fmt.Sprintf("set %s: the Change Dump cannot be used in place of the Change List: %s", st.Name, why))
		}
		if gap != "" {
			warn(st.ChangeDump, gap)
		}
		for _, f := range failures {
			warn(f.uri, f.err.Error())
		}
		return c, false, nil
	}
	d.fail(failures)
	c.Other = true
	// A Change Dump that was read before is not read again, and then has no instant;
	// nor does that prove that nothing has changed since.
	unproven := "changes that it does not list are unknown"
	if end := saved.Latest(saved.Latest(saved.Time(c.Until), saved.Time(c.Newest)), d.known()); !end.IsZero() {
		unproven = fmt.Sprintf("changes after %s are unknown", wording.Time(end))
	}
	d.Replace(report.Fallback{Missing: string(st.ChangesCapability()), URI: cause.uri, Cause: cause.err.Error(),
		Used: string(resourcesync.ChangeDump), UsedURI: st.ChangeDump, Unproven: unproven})
	return c, true, nil
}

// ReplacesChanges reports whether a list is to replace the changes, because they
// cannot be read.
func (d *Documents) ReplacesChanges() bool { return len(d.changes) > 0 }

// FailChanges reports that the changes cannot be read, and that no list replaces them.
func (d *Documents) FailChanges() {
	d.fail(d.changes)
	d.changes = nil
}

// AcceptList reports that the list read replaces the changes c, if it is fresh;
// otherwise that they cannot be read. It returns the chain to continue with.
func (d *Documents) AcceptList(snap *entries.Snapshot, c *entries.Chain) entries.Chain {
	if !snap.Whole() || !d.IsFresh(snap.At) {
		d.fail(d.changes)
		if snap.Whole() {
			d.WarnNotFresh(snap.At)
		}
		unknown := *c
		unknown.Complete, unknown.Vanished = false, nil
		return unknown
	}
	d.useList(snap.At)
	return entries.Chain{Complete: true}
}

// AcceptUnchangedList is AcceptList for a list that has not changed since it was
// applied.
func (d *Documents) AcceptUnchangedList() {
	at := resourcesync.NewDatetime(d.Set.ListAt)
	if !d.IsFresh(at) {
		d.fail(d.changes)
		d.WarnNotFresh(at)
		return
	}
	d.useList(at)
}

// useList reports that the list read, of an instant, replaces the changes.
func (d *Documents) useList(at resourcesync.Datetime) {
	f, used := gravest(d.changes), d.Set.ListCapability()
	if d.ListURI == d.Set.Dump && d.Set.Dump != "" {
		used = resourcesync.ResourceDump
	}
	d.Replace(report.Fallback{Missing: string(d.Set.ChangesCapability()), URI: f.uri, Cause: f.err.Error(), Used: string(used), UsedURI: d.ListURI,
		Unproven: fmt.Sprintf("changes after %s are unknown", wording.Time(at.Time()))})
}
