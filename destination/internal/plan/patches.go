package plan

import (
	"slices"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/patch"
)

const (
	// RequestBytes is the cost of a request in addition to its content, as the
	// number of bytes that could be transferred in the same time: many requests run
	// concurrently, and each waits for a round trip. It need not be accurate:
	// contents are verified in any case.
	RequestBytes = 8 << 10

	// patchRequest is the cost of a request for a patch in addition to its bytes,
	// and 1/patchShare the share of the length of the whole content that a chain
	// may cost.
	patchRequest = 512
	patchShare   = 2

	// maxChain is the maximum size of several deltas of a large content together:
	// they are all in memory while they are applied, decompressed.
	maxChain = 8 << 20
)

// IsChunkDelta reports whether a patch can be applied without holding the content in
// memory.
func IsChunkDelta(p *desired.Patch) bool {
	return content.TypeOnly(p.Link.Type) == patch.TypeChunkDelta
}

// chainFrom returns the patches that turn the version held into the desired one, if
// some of them start from it (RS-REL-34).
func (a *Action) chainFrom() []desired.Patch {
	if !a.IsHeld() || a.FileMissing || len(a.Held.Hashes) == 0 {
		return nil
	}
	for i := range slices.Backward(a.Patches) {
		if content.Compare(a.Held.Hashes, a.Patches[i].From) == content.Same {
			return a.Patches[i:]
		}
	}
	if len(a.Patches) > 0 && a.Patches[0].FromHeld && content.Compare(a.Held.Hashes, a.Patches[0].From) != content.Different {
		return a.Patches
	}
	return nil
}

// ApplicablePatches returns the patches that lead from the version held to the
// desired one, if contents of their lengths can be patched, and their total size in
// bytes.
func (a *Action) ApplicablePatches() (steps []desired.Patch, bytes int64) {
	if steps = a.chainFrom(); len(steps) == 0 || a.Length < 0 || !content.HasKnown(a.Hashes) {
		return nil, 0
	}
	for i := range steps {
		l := &steps[i].Link
		most := patch.MaxOld(l.Type)
		if l.Length <= 0 || l.Length > patch.MaxPatch(l.Type) || a.Held.Length > most || a.Length > most || steps[i].Length > most {
			return nil, 0
		}
		bytes += l.Length // at most maxPatched times the largest size that can be applied
		if i > 0 && bytes > maxChain && IsChunkDelta(&steps[i]) {
			return nil, 0
		}
	}
	return steps, bytes
}

// WorthwhilePatches returns the patches that lead from the version held to the desired
// one, if they are small enough compared to the whole content, and their total size
// in bytes.
func (a *Action) WorthwhilePatches() (steps []desired.Patch, bytes int64) {
	steps, bytes = a.ApplicablePatches()
	if bytes+patchRequest*int64(len(steps)) > a.Length/patchShare {
		return nil, 0
	}
	return steps, bytes
}

// PatchesFirst returns the patches that cost less than any other method, and their
// total size in bytes. With packed, the content is also in a package, where it is
// read together with other content and needs no request of its own.
func (a *Action) PatchesFirst(packed bool) (steps []desired.Patch, bytes int64) {
	steps, bytes = a.WorthwhilePatches()
	if packed && bytes+RequestBytes*int64(len(steps)) >= a.Length {
		return nil, 0
	}
	return steps, bytes
}
