package patch_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"testing"

	"lockstep/internal/chunkdelta"
	"lockstep/patch"
)

// TestApplyChunkDelta: deltas of large contents are applied like all patches, to the
// bytes that they are made for.
func TestApplyChunkDelta(t *testing.T) {
	t.Parallel()
	old := prose(11, 200<<10)
	x, err := chunkdelta.IndexOf(bytes.NewReader(old), sha256.Sum256(old))
	must(t, err)
	want := edit(old, 2)
	s := chunkdelta.NewScanner(nil, x)
	must(t, s.Scan(bytes.NewReader(want)))
	p, err := s.Delta()
	must(t, err)
	size := int64(len(want))
	if got, err := patch.Apply(patch.TypeChunkDelta+"; a=b", old, p, size); err != nil || !bytes.Equal(got, want) {
		t.Errorf("Apply yields %d bytes, %v", len(got), err)
	}
	for name, tt := range map[string]struct {
		old, p []byte
		limit  int64
		want   error
	}{
		"a byte above the limit": {old, p, size - 1, patch.ErrTooLarge},
		"other bytes":            {want, p, size, patch.ErrInvalid},
		"bytes of that length":   {prose(12, 200<<10), p, size, patch.ErrInvalid},
		"cut":                    {old, p[:len(p)-1], size, patch.ErrInvalid},
		"too long":               {old, make([]byte, patch.MaxPatch(patch.TypeChunkDelta)+1), size, patch.ErrTooLarge},
	} {
		if _, err := patch.Apply(patch.TypeChunkDelta, tt.old, tt.p, tt.limit); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
	if most := patch.MaxOld(patch.TypeChunkDelta); most != 1<<30 {
		t.Errorf("contents of up to %d bytes, want 1 GiB", most)
	}
}
