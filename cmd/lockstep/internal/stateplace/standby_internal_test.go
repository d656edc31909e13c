package stateplace

import (
	"testing"

	"lockstep/internal/statedir"
)

// TestDrafts: what a standby notes remains with it, and is seen there in place of what is stored.
func TestDrafts(t *testing.T) {
	t.Parallel()
	stored := statedir.Files(t.TempDir())
	if err := stored.Save("a", []byte("stored")); err != nil {
		t.Fatal(err)
	}
	d := &drafts{Notes: stored, saved: map[string][]byte{}}
	load := func(notes statedir.Notes, name, want string) {
		t.Helper()
		if got, err := notes.Load(name); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v, want %q", name, got, err, want)
		}
	}
	load(d, "a", "stored")
	for _, name := range []string{"a", "b"} {
		if err := d.Save(name, []byte("draft")); err != nil {
			t.Fatal(err)
		}
		load(d, name, "draft")
	}
	load(stored, "a", "stored")
	load(stored, "b", "")
	if err := d.Save("a", nil); err != nil {
		t.Fatal(err)
	}
	load(d, "a", "")
	load(stored, "a", "stored")
}
