package restore

import (
	"context"
	"fmt"
	"slices"

	"lockstep/destination/internal/dump"
	"lockstep/destination/internal/entries"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// MaxPackages is the number of packages that are searched for contents: each costs
// a request or two before any of its contents are known.
const MaxPackages = 2000

// StageHints stages the contents of the packages of the dumps that may have the
// resources of the state: the last Resource Dump before it, the Change Dumps from
// there on, and the first Resource Dump after it.
func (st *State) StageHints(ctx context.Context, r *entries.Reader) error {
	st.Hinted = true
	at := resourcesync.NewDatetime(st.AsOf)
	var before, after, changes []*entries.Archived
	for i := range st.Dumps {
		switch d := &st.Dumps[i]; {
		case d.Kind == resourcesync.ChangeDump:
			changes = append(changes, d)
		case d.Kind != resourcesync.ResourceDump:
		case d.At.Compare(at) > 0:
			after = append(after, d)
		default:
			before = append(before, d)
		}
	}
	slices.Reverse(before)
	left := MaxPackages
	var since resourcesync.Datetime
	for _, dumps := range [][]*entries.Archived{before, after} {
		for _, d := range dumps {
			ok, err := stageHints(ctx, r, d, resourcesync.ResourceDumpManifest, &left, nil)
			if err != nil {
				return err
			}
			if ok && d.At.Compare(at) <= 0 {
				since = d.At
			}
			if ok {
				break // contents of earlier or later dumps are of another time, or are listed here, too
			}
		}
	}
	isNear := func(e *resourcesync.Metadata) bool {
		return (e.Until.IsZero() || since.IsZero() || e.Until.Compare(since) >= 0) && (e.From.IsZero() || e.From.Compare(at) <= 0)
	}
	for _, d := range slices.Backward(changes) { // the last ones have most of it
		if isNear(&resourcesync.Metadata{From: d.From, Until: d.Until}) {
			if _, err := stageHints(ctx, r, d, resourcesync.ChangeDumpManifest, &left, isNear); err != nil {
				return err
			}
		}
	}
	return nil
}

// stageHints stages the contents of the packages of a dump that wants selects; nil
// selects all. It reads no more packages than are left, and reports whether the dump
// could be read; if not, it warns.
func stageHints(ctx context.Context, r *entries.Reader, d *entries.Archived, manifest resourcesync.Capability, left *int, wants func(*resourcesync.Metadata) bool) (ok bool, err error) {
	if *left <= 0 {
		return false, nil
	}
	packages, err := r.PackagesOf(ctx, d.Uri, d.Kind)
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if err != nil {
		r.Warn(d.Uri, fmt.Sprintf("the packages of %s were not used: %v", fetch.Printable(d.Uri), err))
		return false, nil
	}
	var refs []dump.Ref
	for i := range slices.Backward(packages) {
		e := &packages[i]
		if *left == 0 || wants != nil && !wants(&e.Metadata) {
			continue
		}
		if ref := r.RefOf(e); ref.Refused == "" {
			ref.Listing = true // nothing else describes that time
			refs = append(refs, ref)
			*left--
		}
	}
	return true, r.ReadHints(ctx, refs, manifest)
}
