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
	for _, doc := range []struct {
		uri            string
		kind, manifest resourcesync.Capability
	}{
		{st.ChangeDump, resourcesync.ChangeDump, resourcesync.ChangeDumpManifest},
		{st.Dump, resourcesync.ResourceDump, resourcesync.ResourceDumpManifest},
	} {
		if doc.uri == "" || d.wasSearched(ctx, doc.uri) {
			continue
		}
		packages, err := d.Reader.PackagesOf(ctx, doc.uri, doc.kind)
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if err != nil {
			d.Warn(doc.uri, fmt.Sprintf("set %s: the packages of the %s cannot be searched: %v", st.Name, wording.Capability(string(doc.kind)), err))
			continue
		}
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

// wasSearched reports whether a dump is unchanged since it was last searched, or
// cannot be read, and records its validators.
func (d *Documents) wasSearched(ctx context.Context, uri string) bool {
	o := d.Outages
	doc, err := d.Reader.Open(ctx, uri, o.Searched[uri])
	if err != nil {
		return true
	}
	_ = doc.Close() // only its validators are of interest
	if v := (saved.Validators{ETag: doc.ETag, Modified: doc.LastModified}); v != (saved.Validators{}) {
		o.Search(uri, v)
	}
	return false
}
