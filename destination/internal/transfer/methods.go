package transfer

import (
	"context"
	"fmt"
	"io"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/plan"
	"lockstep/resourcesync"
)

// A method is one of the methods to get the content of a resource.
type method uint8

const (
	packedPatch   method = iota + 1 // apply patches, preferably out of packages
	addressPatch                    // apply patches, preferably from their addresses
	packedVersion                   // read the version out of its package
	wholeResource                   // fetch the resource from its address
	packedAnyhow                    // read the version out of its package, at any cost
)

// isPacked reports whether the content of a can be read out of a package on its
// own, without reading the package for all resources that need it.
func (f *Fetcher) isPacked(a *plan.Action) bool {
	return f.Members != nil && a.Member.Package > 0 && a.Member.Path != "" && a.From == "" && content.HasKnown(a.Hashes)
}

// PatchesFirst returns the patches that are to be tried before any other method, or
// none.
func (f *Fetcher) PatchesFirst(a *plan.Action, packed bool) []desired.Patch {
	steps, _ := a.PatchesFirst(packed)
	return f.usable(steps)
}

var onlyWhole = []method{wholeResource}

// methods returns the methods by which the content of a can be obtained, cheapest
// first. Each is tried if those before it failed, for whatever reason (RS-CDM-07,
// RS-REL-34).
func (f *Fetcher) methods(a *plan.Action, steps []desired.Patch) []method {
	packed, inPackages := f.isPacked(a), false
	if !packed && len(steps) == 0 || a.Change == resourcesync.UnknownChange { // only its address shows the current state of the latter
		return onlyWhole
	}
	for i := range steps {
		inPackages = inPackages || steps[i].Member.Package > 0 && f.Members != nil
	}
	pays, _ := a.WorthwhilePatches()
	first := len(f.PatchesFirst(a, packed && !a.PackageRead)) > 0
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
func (t *transfer) byMethods(ctx context.Context) Outcome {
	lead, _ := t.a.ApplicablePatches()
	steps := t.usable(lead)
	var failed Outcome
	var packed error
	for _, m := range t.methods(t.a, steps) {
		var o Outcome
		ok := false
		switch m {
		case packedPatch, addressPatch:
			o, ok = t.patched(ctx, steps, m == packedPatch)
		case packedVersion, packedAnyhow:
			o = t.unpacked(ctx, m == packedAnyhow)
			ok, packed = o.Err == nil || content.IsLocal(o.Err), o.Err
		case wholeResource:
			o = t.run(ctx)
			ok, failed = o.Err == nil || content.IsLocal(o.Err), o
		}
		if ok {
			return o
		}
		if ctx.Err() != nil {
			return Outcome{Err: context.Cause(ctx)}
		}
		t.renew()
	}
	if packed != nil {
		failed.Err = fmt.Errorf("%w; nor could it be read from its package: %w", failed.Err, packed)
	}
	return failed
}

// renew resets t for another method.
func (t *transfer) renew() {
	t.w, t.n, t.total, t.resumed, t.kept, t.header, t.at, t.sums, t.warning = nil, 0, 0, false, false, nil, location{}, nil, ""
}

// unpacked reads the version out of its package.
func (t *transfer) unpacked(ctx context.Context, insist bool) Outcome {
	var o Outcome
	err := t.Members.Read(ctx, t.a.Member.Package, t.a.Member.Path, t.a.Length, insist, func(content io.Reader) error {
		o = t.copy(ctx, content)
		return o.Err
	})
	if err != nil {
		return Outcome{Err: err}
	}
	o.By = ByPackage
	return o
}
