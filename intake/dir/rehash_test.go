package dir_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/intake/dir"
	"lockstep/resourcesync"
)

// TestRehashRate: files are not read again faster than the rate.
func TestRehashRate(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "large"), make([]byte, 300_000), 0o644); err != nil {
		t.Fatal(err)
	}
	cat := catalog.NewMem(nil)
	d, err := dir.New(root, cat, "set", dir.Options{BaseURI: "https://example.org/"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	r := dir.NewRehasher(d, dir.RehashOptions{Share: 1, Rate: 1_000_000, Now: func() time.Time { return now }})
	if _, err := r.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	now = now.Add(24 * time.Hour)
	began := time.Now()
	if _, err := r.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 300*time.Millisecond { // 300,000 bytes at 1,000,000 a second
		t.Errorf("300,000 bytes were read again in %v, want 0.3 s or more", took)
	}
}

// TestRehash: a share of the files is read again in a day, spread evenly, through
// restarts; one whose bytes changed while size and times did not is reported, and
// listed as it is. A scan does not see it.
func TestRehash(t *testing.T) {
	t.Parallel()
	const files, set = 50, "set"
	root, state := t.TempDir(), filepath.Join(t.TempDir(), "rehash.json")
	earlier := time.Now().Add(-time.Hour).Truncate(time.Second)
	for i := range files {
		path := filepath.Join(root, fmt.Sprintf("%02d.txt", i))
		if err := os.WriteFile(path, fmt.Appendf(nil, "content %02d", i), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, earlier, earlier); err != nil {
			t.Fatal(err)
		}
	}
	cat := catalog.NewMem(nil)
	d, err := dir.New(root, cat, set, dir.Options{BaseURI: "https://example.org/"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	for r, err := d.Scan(t.Context()); r.Hashed > 0 || err != nil; r, err = d.Scan(t.Context()) { // until they are old enough not to be read again
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	// The record of one file is damaged: to the scan its size and times agree.
	rec, ok, err := catalog.Find(t.Context(), cat, set, "https://example.org/07.txt")
	if err != nil || !ok {
		t.Fatal(err)
	}
	right := rec.Hashes
	rec.Hashes = resourcesync.Hashes{{Algorithm: resourcesync.SHA256, Digest: right.Get(resourcesync.SHA256)[1:] + "0"}}
	if _, err := cat.Apply(t.Context(), set, []catalog.Update{{Record: rec}}); err != nil {
		t.Fatal(err)
	}
	if r, err := d.Scan(t.Context()); err != nil || r.Updated != 0 {
		t.Fatalf("scan: %+v, %v", r, err)
	}

	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var damaged []dir.Damage
	start := func(share float64) *dir.Rehasher {
		return dir.NewRehasher(d, dir.RehashOptions{
			Share: share, State: state, Now: func() time.Time { return now },
			OnDamage: func(x dir.Damage) { damaged = append(damaged, x) },
		})
	}
	step := func(r *dir.Rehasher, want int) {
		t.Helper()
		if n, err := r.Step(t.Context()); err != nil || n != want {
			t.Errorf("at %s: %d files read, %v, want %d", now, n, err, want)
		}
	}
	r := start(0.1) // 5 files a day
	step(r, 0)
	total := 0
	for range 24 {
		now = now.Add(time.Hour)
		n, err := r.Step(t.Context())
		if err != nil || n > 1 {
			t.Fatalf("at %s: %d files read, %v, want at most one in an hour", now, n, err)
		}
		total += n
	}
	if total < 4 || total > 5 || len(damaged) != 0 {
		t.Errorf("%d files read in a day, want 5; damaged %v", total, damaged)
	}
	r = start(0.1) // goes on where it was
	now = now.Add(24 * time.Hour)
	step(r, 5)
	if len(damaged) != 1 || damaged[0].Path != "07.txt" || damaged[0].URI != "https://example.org/07.txt" {
		t.Fatalf("damaged %+v, want 07.txt", damaged)
	}
	listed, _, err := catalog.Find(t.Context(), cat, set, "https://example.org/07.txt")
	if err != nil || listed.Hashes.Get(resourcesync.SHA256) != right.Get(resourcesync.SHA256) {
		t.Errorf("listed with %v, %v, want the hash of the bytes on disk", listed.Hashes, err)
	}
	now = now.Add(365 * 24 * time.Hour) // no more than a day is made up for
	step(r, 5)
	for range 10 { // round and round
		now = now.Add(24 * time.Hour)
		step(r, 5)
	}
	if len(damaged) != 1 {
		t.Errorf("damaged %+v, want it reported once", damaged)
	}
	now = now.Add(24 * time.Hour)
	step(start(0), 0)
}
