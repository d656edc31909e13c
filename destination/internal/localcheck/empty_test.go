package localcheck_test

import (
	"testing"

	"lockstep/blob"
	"lockstep/blob/faultfs"
	"lockstep/destination/internal/localcheck"
	"lockstep/destination/journal"
)

// TestAnEmptyMirrorInAPlainStore: a store and a Journal without optional methods.
func TestAnEmptyMirrorInAPlainStore(t *testing.T) {
	t.Parallel()
	store := &faultfs.Store{Store: new(blob.Mem), Faults: new(faultfs.Faults)}
	r, err := localcheck.Run(t.Context(), localcheck.Mirror{Journal: new(journal.Mem), Files: store})
	if err != nil || r.Files != 0 || len(r.Damaged) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
}
