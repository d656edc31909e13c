package destination

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"lockstep/destination/internal/pending"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
)

// A MirrorState is what a Journal has recorded of a mirror: its state after the last run,
// or at some point of the present one.
type MirrorState struct {
	Source string      `json:"source,omitempty"` // its address, without user and password; "": none was found yet
	Open   bool        `json:"open,omitempty"`   // a run is in progress, or was killed
	Sets   []MirrorSet `json:"sets"`             // in the order of their URIs
}

// A MirrorSet is the state of one set of a mirror.
type MirrorSet struct {
	Name        string    `json:"name"`
	URI         string    `json:"uri"`
	Complete    bool      `json:"complete"`              // all of the set was compared once, and applied
	SyncedUntil time.Time `json:"synced_until,omitzero"` // by the Source's clock: all earlier changes are applied
	Resources   int64     `json:"resources"`
	Pending     int64     `json:"pending"`           // resources that are tried again by the next run
	Error       string    `json:"error,omitempty"`   // why, of the first of them
	Failing     bool      `json:"failing,omitempty"` // some of them failed, and the Source has not withdrawn the set; others are notified deletions to be confirmed, or optional representations
}

// Inspect returns what j has recorded. It needs no lock: another process may be working on
// the mirror.
func Inspect(ctx context.Context, j journal.Journal) (MirrorState, error) {
	var m saved.Mirror
	state := MirrorState{Sets: []MirrorSet{}}
	if _, err := saved.Load(ctx, j, saved.DocMirror, &m); err != nil {
		return state, err
	}
	if m.Found != nil {
		state.Source = m.Found.Address
	}
	running, err := j.Load(ctx, saved.DocOpen)
	if err != nil {
		return state, err
	}
	state.Open = running != nil
	counts, offered := saved.Counts{}, m.OfferedNumbers()
	if _, err := saved.Load(ctx, j, saved.DocCounts, &counts); err != nil {
		return state, err
	}
	for _, uri := range slices.Sorted(maps.Keys(m.Numbers)) {
		number := m.Numbers[uri]
		var st saved.Set
		known, err := saved.Load(ctx, j, saved.DocSet(number), &st)
		if err != nil {
			return state, err
		}
		if !known {
			continue
		}
		set := MirrorSet{Name: st.Name, URI: uri, Complete: st.Complete, SyncedUntil: st.Watermark, Resources: counts[number]}
		for owed, err := range j.Owed(ctx, number) {
			if err != nil {
				return state, err
			}
			set.Pending++
			set.Error = cmp.Or(set.Error, fetch.Printable(owed.Cause))
		}
		if waiting := (pending.Set{Journal: j, Number: number}); offered[number] {
			if set.Failing, err = waiting.HasFailures(ctx); err != nil {
				return state, err
			}
		}
		state.Sets = append(state.Sets, set)
	}
	return state, nil
}
