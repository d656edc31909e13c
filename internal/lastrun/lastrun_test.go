package lastrun

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"lockstep/internal/note"
)

// TestRecord: a run that fails keeps when the mirror was last in step, and counts; one that
// succeeds forgets what failed.
func TestRecord(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := note.File(filepath.Join(dir, Name))
	if _, ok, err := Read(in); ok || err != nil {
		t.Errorf("Read of nothing = %v, %v", ok, err)
	}
	at := func(minute int) time.Time { return time.Date(2026, 5, 1, 12, minute, 0, 0, time.UTC) }
	for _, step := range []struct {
		result         Result
		success, since time.Time
		attempts       int
	}{
		{Failed, time.Time{}, at(0), 1},
		{Interrupted, time.Time{}, at(0), 1},
		{InStep, at(2), time.Time{}, 0},
		{InStep, at(3), time.Time{}, 0},
		{Incomplete, at(3), at(4), 1},
		{Refused, at(3), at(4), 2},
		{Interrupted, at(3), at(4), 2},
		{Failed, at(3), at(4), 3},
		{InStep, at(8), time.Time{}, 0},
		{Interrupted, at(8), time.Time{}, 0},
	} {
		r, _, err := Read(in)
		if err != nil {
			t.Fatal(err)
		}
		minute := 0
		if !r.Ended.IsZero() {
			minute = r.Ended.Minute() + 1
		}
		if err := Record(in, Run{Result: step.result, Ended: at(minute), Created: 3}); err != nil {
			t.Fatal(err)
		}
		got, ok, err := Read(in)
		if err != nil || !ok || got.Result != step.result || !got.LastSuccess.Equal(step.success) || !got.FailingSince.Equal(step.since) || got.Attempts != step.attempts || got.Created != 3 {
			t.Errorf("minute %d: %+v, %v, want %+v", minute, got, err, step)
		}
	}
	if err := in.Write([]byte("{")); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := Read(in); ok || err == nil {
		t.Errorf("Read of a damaged record = %v, %v", ok, err)
	}
	if err := Record(in, Run{Result: Failed, Ended: at(30)}); err != nil {
		t.Fatal(err)
	}
	if got, ok, err := Read(in); err != nil || !ok || got.Attempts != 1 {
		t.Errorf("after a damaged record: %+v, %v", got, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

// TestManySets: of many sets only those with an error are recorded, and not more than that.
func TestManySets(t *testing.T) {
	t.Parallel()
	in := note.File(filepath.Join(t.TempDir(), Name))
	for _, tt := range []struct{ sets, failed, want int }{{maxSets, 3, maxSets}, {maxSets + 1, 3, 3}, {3 * maxSets, 2 * maxSets, maxSets}} {
		sets := make([]Set, tt.sets)
		for i := range tt.failed {
			sets[i].Error = "it failed"
		}
		if err := Record(in, Run{Result: Failed, Sets: sets}); err != nil {
			t.Fatal(err)
		}
		r, _, err := Read(in)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Sets) != tt.want || r.Sets[0].Error == "" || r.SetsCut != (tt.sets > maxSets) {
			t.Errorf("of %d sets, of which %d failed, %d are recorded, want %d", tt.sets, tt.failed, len(r.Sets), tt.want)
		}
	}
}
