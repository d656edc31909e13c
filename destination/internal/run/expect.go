package run

import (
	"context"
	"fmt"
	"time"

	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/proof"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/substitute"
	"lockstep/internal/fetch"
)

// Expect stages what the set of the documents should contain: what its list and the
// changes since then state, or without a list, the result of its changes. It records
// what they leave open.
func Expect(ctx context.Context, docs *substitute.Documents) (snap entries.Snapshot, err error) {
	st := docs.Set
	if failWithout(docs) {
		return snap, nil
	}
	docs.Compared = true
	if st.Lists != "" {
		if snap, err = docs.ReadList(ctx); err != nil {
			return snap, err
		}
	}
	fresh := *st
	fresh.Cursor, fresh.Seen, fresh.SeenTime = saved.Cursor{}, nil, time.Time{}
	c, err := docs.ReadChanges(ctx, snap.Since(), &fresh, false)
	if err != nil {
		return snap, err
	}
	if docs.ReplacesChanges() {
		c = docs.AcceptList(&snap, &c)
	}
	if docs.ReplacesList() {
		docs.AcceptDump(snap.At)
	}
	if st.Changes == "" || docs.ReplacesChanges() {
		return snap, nil
	}
	proof.Review(st, &c, snap.At)
	if gap := c.GapAfter(snap.At); gap != "" {
		docs.Warn(st.Changes, fmt.Sprintf("set %s: %s", st.Name, gap))
	}
	return snap, nil
}

// failWithout reports that a set has no documents that state its resources, and
// returns whether that is so.
func failWithout(docs *substitute.Documents) bool {
	st := docs.Set
	if st.Lists != "" || st.Changes != "" {
		return false
	}
	docs.Reader.Fail(st.URI, fmt.Errorf("read %s: the set offers none of Resource List, Resource Dump, Change List and Change Dump", fetch.Printable(st.URI)))
	return true
}
