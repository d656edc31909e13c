package destination

import (
	"context"
	"fmt"
	"io"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/plan"
	"lockstep/resourcesync"
)

// A method is one of the ways to get the content of a resource.
type method uint8

const (
	packedPatch   method = iota + 1 // apply patches, out of packages first
	addressPatch                    // apply patches, from their addresses first
	packedVersion                   // read the version out of its package
	wholeResource                   // fetch the resource from its address
	packedAnyhow                    // read the version out of its package, whatever that costs
)

// isPacked reports whether the content of a can be read out of a package, by
// methods other than reading the package with all that is wanted of it.
func (f *fetcher) isPacked(a *plan.Action) bool {
	return f.members != nil && a.Member.Package > 0 && a.Member.Path != "" && a.From == "" && isVouched(&a.Resource)
}

// PatchesFirst returns the patches that are to be tried before anything else,
// or none.
func (f *fetcher) patchesFirst(a *plan.Action, packed bool) []desired.Patch {
	steps, _ := a.PatchesFirst(packed)
	return f.usable(steps)
}

// methods returns the methods by which the content of a can be obtained, the
// cheapest first. Each one is tried if those before it failed, for whatever
// reason (RS-CDM-07, RS-REL-34).
func (f *fetcher) methods(a *plan.Action, steps []desired.Patch) []method {
	if a.Change == resourcesync.UnknownChange {
		return []method{wholeResource} // nothing but its address says what it is now
	}
	packed, inPackages := f.isPacked(a), false
	for i := range steps {
		inPackages = inPackages || steps[i].Member.Package > 0 && f.members != nil
	}
	pays, _ := a.PatchesThatPay()
	first := len(f.patchesFirst(a, packed && !a.PackageRead)) > 0
	var all []method
	add := func(m method, when bool) {
		if when {
			all = append(all, m)
		}
	}
	patches := len(steps) > 0
	add(packedPatch, first && inPackages)
	add(addressPatch, first && !inPackages)
	add(packedVersion, packed && !a.PackageRead)
	add(packedPatch, patches && !first && inPackages && len(pays) > 0)
	add(addressPatch, patches && len(pays) > 0 && (first && inPackages || !first && !inPackages))
	add(wholeResource, true)
	add(packedPatch, patches && inPackages && len(pays) == 0)
	add(addressPatch, patches && !inPackages && len(pays) == 0)
	add(packedAnyhow, packed)
	return all
}

// byMethods gets the content by the first method that yields what was described.
func (t *transfer) byMethods(ctx context.Context) outcome {
	lead, _ := t.a.PatchesThatLead()
	steps := t.usable(lead)
	var failed outcome
	var packed error
	for _, m := range t.methods(t.a, steps) {
		var o outcome
		ok := false
		switch m {
		case packedPatch, addressPatch:
			o, ok = t.patched(ctx, steps, m == packedPatch)
		case packedVersion, packedAnyhow:
			o = t.unpacked(ctx, m == packedAnyhow)
			ok, packed = o.err == nil || content.IsLocal(o.err), o.err
		case wholeResource:
			o = t.run(ctx)
			ok, failed = o.err == nil || content.IsLocal(o.err), o
		}
		if ok {
			return o
		}
		if ctx.Err() != nil {
			return outcome{err: context.Cause(ctx)}
		}
		t.renew()
	}
	if packed != nil {
		failed.err = fmt.Errorf("%w; nor could it be read from its package: %w", failed.err, packed)
	}
	return failed
}

// renew makes t ready for another method.
func (t *transfer) renew() {
	t.w, t.n, t.resumed, t.kept, t.header, t.at = nil, 0, false, false, nil, location{}
}

// unpacked reads the version out of its package.
func (t *transfer) unpacked(ctx context.Context, insist bool) outcome {
	var o outcome
	err := t.members.Read(ctx, t.a.Member.Package, t.a.Member.Path, t.a.Length, insist, func(content io.Reader) error {
		o = t.copy(ctx, content)
		return o.err
	})
	if err != nil {
		return outcome{err: err}
	}
	o.by = byPackage
	return o
}
