package transfer

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/plan"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
	"lockstep/patch"
	"lockstep/resourcesync"
)

const (
	// makingBytes is the memory that all patches being applied may use together. A
	// document that has to be parsed is counted with makingTree times its length.
	makingBytes = 64 << 20
	makingTree  = 15

	// maxPatchFaults is how many patches of a type may fail in a row before all
	// others of that type from the Source are skipped: it writes them in a form
	// that we cannot apply.
	maxPatchFaults = 3
)

// patchFaults counts the failed patches by type. It is safe for concurrent use; the
// zero value is empty.
type patchFaults struct {
	mu    sync.Mutex // guards inRow
	inRow map[string]int
}

func (f *patchFaults) tooMany(mediaType string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.inRow[mediaType] >= maxPatchFaults
}

func (f *patchFaults) note(steps []desired.Patch, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range steps {
		t := content.TypeOnly(steps[i].Link.Type) // one of the known types
		switch {
		case ok:
			delete(f.inRow, t)
		case f.inRow == nil:
			f.inRow = map[string]int{t: 1}
		default:
			f.inRow[t]++
		}
	}
}

// usable returns steps, or none if one of them must not be fetched, or is of a type
// that failed too often.
func (f *Fetcher) usable(steps []desired.Patch) []desired.Patch {
	for i := range steps {
		l := &steps[i].Link
		if steps[i].Member.Package == 0 && f.Refuse != nil && f.Refuse(l.Href) != "" || f.faults.tooMany(content.TypeOnly(l.Type)) {
			return nil
		}
	}
	return steps
}

// patched builds the content from the version held by a chain of patches. With
// packed it looks for each patch in packages first, otherwise at its address first;
// a patch that is unavailable at one is taken from the other. If the result is not
// what was described (RS-REL-34), patched reports false.
func (t *transfer) patched(ctx context.Context, steps []desired.Patch, packed bool) (Outcome, bool) {
	if len(steps) == 0 {
		return Outcome{}, false
	}
	weight := patchMemory(t.a, steps)
	if err := t.Shared.patching.Acquire(ctx, weight); err != nil {
		return Outcome{Err: err}, true
	}
	defer t.Shared.patching.Release(weight)
	if weight > makingBytes/4 {
		runtime.GC() // the memory of the previous patch would be collected only once as much again is in use
	}
	r, err := t.make(ctx, steps, packed)
	if err == nil {
		o := t.copy(ctx, r)
		_ = r.Close() // only read from
		if o.By, err = ByPatch, o.Err; err == nil || content.IsLocal(err) {
			t.faults.note(steps, err == nil)
			return o, true
		}
		if allChunkDeltas(steps) && ctx.Err() == nil && !t.isAsHeld(ctx, &t.a.Held) {
			err = fmt.Errorf("%w: %w", errNotHeld, err)
		}
	}
	if ctx.Err() != nil {
		return Outcome{Err: context.Cause(ctx)}, true
	}
	if !errors.Is(err, errNotHeld) {
		t.faults.note(steps, false)
	}
	t.Log.DebugContext(ctx, "patch of no use", slog.String("uri", t.a.URI), slog.Any("err", err))
	return Outcome{}, false
}

// patchMemory returns how much memory it takes to carry out a by applying steps.
func patchMemory(a *plan.Action, steps []desired.Patch) int64 {
	if allChunkDeltas(steps) {
		return chunkDeltaMemory(steps)
	}
	weight := int64(0)
	for i := range steps {
		each := a.Held.Length + 3*max(a.Length, steps[i].Length) + steps[i].Link.Length
		if content.TypeOnly(steps[i].Link.Type) != patch.TypeDelta {
			each *= makingTree
		}
		weight = min(max(weight, each), makingBytes)
	}
	return weight
}

// make applies patches to the version held and returns the result. The caller closes
// it.
func (t *transfer) make(ctx context.Context, steps []desired.Patch, packed bool) (io.ReadCloser, error) {
	if allChunkDeltas(steps) {
		return t.chunkDeltas(ctx, steps, packed)
	}
	content, err := t.heldBytes(ctx, &t.a.Held)
	if err != nil {
		return nil, err
	}
	for i := range steps {
		l := &steps[i].Link
		p, err := t.patchBytes(ctx, &steps[i], packed)
		if err != nil {
			return nil, err
		}
		limit := steps[i].Length
		if limit < 0 {
			limit = patch.MaxOld(l.Type)
		}
		if content, err = patch.Apply(l.Type, content, p, limit); err != nil {
			return nil, fmt.Errorf("apply %s: %w", fetch.Printable(l.Href), err)
		}
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

var errNotHeld = errors.New("the file is not what was written")

// heldBytes returns the bytes of the version held, if they match the Journal.
func (f *Fetcher) heldBytes(ctx context.Context, h *journal.Held) ([]byte, error) {
	r, err := f.Store.Open(ctx, h.Path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotHeld, err)
	}
	defer r.Close() // opened for reading only
	if r.Info().Size != h.Length {
		return nil, errNotHeld
	}
	data := make([]byte, h.Length)
	if _, err := io.ReadFull(content.WithContext(ctx, r), data); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotHeld, err)
	}
	if !f.hasHashes(data, h.Hashes) {
		return nil, errNotHeld
	}
	return data, nil
}

// hasHashes reports whether data has all of the hashes.
func (f *Fetcher) hasHashes(data []byte, hs resourcesync.Hashes) bool {
	algs := content.Strongest(hs)
	hasher := f.Hashers.Get(algs)
	defer f.Hashers.Put(algs, hasher)
	_, _ = hasher.Write(data) // never fails
	return content.Compare(hasher.Sum(), hs) == content.Same
}

// patchBytes gets the bytes of a patch out of its package or from its address;
// packed says which of the two is tried first.
func (t *transfer) patchBytes(ctx context.Context, s *desired.Patch, packed bool) ([]byte, error) {
	var first error
	for _, fromPackage := range [...]bool{packed, !packed} {
		var p []byte
		var err error
		switch {
		case !fromPackage && t.Refuse != nil && t.Refuse(s.Link.Href) != "":
			err = fmt.Errorf("refuse %s: %s", fetch.Printable(s.Link.Href), t.Refuse(s.Link.Href))
		case !fromPackage:
			p, err = t.patchFile(ctx, &s.Link)
		case s.Member.Package == 0 || t.Members == nil:
			continue
		default:
			p, err = t.packedPatch(ctx, s)
		}
		if err == nil || ctx.Err() != nil {
			return p, err
		}
		first = cmp.Or(first, err)
	}
	return nil, first
}

// packedPatch reads a patch out of its package and verifies it against its link.
func (f *Fetcher) packedPatch(ctx context.Context, s *desired.Patch) (data []byte, err error) {
	err = f.Members.Read(ctx, s.Member.Package, s.Member.Path, s.Link.Length, false, func(content io.Reader) error {
		data, err = io.ReadAll(io.LimitReader(content, s.Link.Length+1))
		return err
	})
	if err != nil {
		return nil, err
	}
	return data, f.checkPatch(&s.Link, data)
}

func (f *Fetcher) checkPatch(l *resourcesync.Link, data []byte) error {
	if int64(len(data)) != l.Length || len(l.Hashes) > 0 && !f.hasHashes(data, l.Hashes) {
		return &content.Error{URI: l.Href, What: "content", Want: "another", Got: fmt.Sprintf("one of %d bytes", len(data))}
	}
	return nil
}

// patchFile gets the bytes of a patch from its address and verifies them against
// its link.
func (f *Fetcher) patchFile(ctx context.Context, l *resourcesync.Link) ([]byte, error) {
	uri, _, _ := strings.Cut(l.Href, "#")
	var data []byte
	err := f.Client.Fetch(ctx, &fetch.Request{URI: uri, MaxBytes: l.Length}, func(resp *fetch.Response) error {
		var err error
		data, err = io.ReadAll(resp.Body) // at most MaxBytes
		return err
	})
	if err != nil {
		return nil, err
	}
	return data, f.checkPatch(l, data)
}
