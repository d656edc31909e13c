package site

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/cmd/lockstep/internal/stateplace"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/statedir"
	"lockstep/storage/sqlite"
)

// TestAwaitClock: where the history restarts, nothing is published before the clock has passed what the
// catalog has recorded on another machine.
func TestAwaitClock(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	place, err := stateplace.Parse("postgres://db.example.org/maps", func(string) (string, bool) { return home, true })
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(filepath.Join(home, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	notes := statedir.Rows{Journal: db.Journal()}
	for range 2 { // on two machines
		if err := statedir.Adopt(t.TempDir(), notes, func() (bool, error) { return false, nil }); err != nil {
			t.Fatal(err)
		}
	}
	claim, err := statedir.OwnClaim(statedir.InDatabase(notes, place.String()))
	if err != nil {
		t.Fatal(err)
	}
	await := func(ahead time.Duration) (time.Time, error) {
		t.Helper()
		var shift atomic.Int64 // of the clock: first that of the other machine
		shift.Store(int64(ahead))
		cat := catalog.NewMem(func() time.Time { return time.Now().Add(time.Duration(shift.Load())) })
		mark, err := cat.Mark(t.Context(), "list")
		if err != nil {
			t.Fatal(err)
		}
		shift.Store(0)
		b := &setupBuilder{opts: &Options{State: place}, storage: &storage{db: &stateplace.Database{Catalog: cat}, claim: claim}}
		return mark.At, b.awaitClock(t.Context(), []*siteSet{{name: "main", list: "list"}, {name: "new", list: "other"}})
	}
	if at, err := await(200 * time.Millisecond); err != nil || !time.Now().After(at) {
		t.Errorf("behind by 200 ms: %v, at %v", err, time.Now())
	}
	if _, err := await(time.Hour); err == nil || term.HintOf(err) == "" {
		t.Errorf("behind by an hour: %v", err)
	}
}
