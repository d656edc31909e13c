package substitute

import (
	"context"
	"fmt"
	"time"

	"lockstep/destination/internal/dump"
	"lockstep/destination/internal/restore"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/wording"
	"lockstep/resourcesync"
)

// SearchDumps stages where the packages of the set's dumps contain the resources
// that are staged, and that are unavailable at their addresses: packages that may
// have changed since the watermark. It reports whether any were searched. A dump
// that was searched before is searched again once it has changed.
func (d *Documents) SearchDumps(ctx context.Context, watermark time.Time) (searched bool, err error) {
	st := d.Set
	d.searched = map[string]saved.Validators{}
	for _, doc := range []struct {
		uri            string
		kind, manifest resourcesync.Capability
	}{
		{st.ChangeDump, resourcesync.ChangeDump, resourcesync.ChangeDumpManifest},
		{st.Dump, resourcesync.ResourceDump, resourcesync.ResourceDumpManifest},
	} {
		if doc.uri == "" {
			continue
		}
		state, changed := d.changedSince(ctx, doc.uri)
		if !changed {
			continue
		}
		packages, err := d.Reader.PackagesOf(ctx, doc.uri, doc.kind)
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if err != nil {
			d.Warn(doc.uri, fmt.Sprintf("set %s: the packages of the %s cannot be searched: %v", st.Name, wording.Capability(string(doc.kind)), err))
			if !dump.MayPass(err) {
				d.searched[doc.uri] = state
			}
			continue
		}
		d.searched[doc.uri] = state
		var refs []dump.Ref
		for i := range packages {
			p := &packages[i]
			if ref := d.Reader.RefOf(p); ref.Refused == "" && (p.Until.IsZero() || !saved.Time(p.Until).Before(watermark) || watermark.IsZero()) {
				refs = append(refs, ref)
			}
		}
		if len(refs) == 0 || len(refs) > restore.MaxPackages {
			continue
		}
		if err := d.Reader.ReadHints(ctx, refs, doc.manifest); err != nil {
			return false, err
		}
		searched = true
	}
	return searched, nil
}

// changedSince reports whether a dump has changed since it was last searched, or was never searched, and can be read.
// It returns its validators.
func (d *Documents) changedSince(ctx context.Context, uri string) (state saved.Validators, changed bool) {
	doc, err := d.Reader.Open(ctx, uri, d.Outages.Searched[uri])
	if err != nil {
		return state, false
	}
	_ = doc.Close() // only its validators are of interest
	return saved.Validators{ETag: doc.ETag, Modified: doc.LastModified}, true
}

// RecordSearches records that SearchDumps has searched dumps, once what it has found was fetched. Where a package could
// not be read, and may be readable later, the next run searches again.
func (d *Documents) RecordSearches() {
	if d.Reader.Packages.MayYieldMore() {
		return
	}
	for uri, state := range d.searched {
		if state != (saved.Validators{}) { // else it would not be recognized
			d.Outages.Search(uri, state)
		}
	}
}
