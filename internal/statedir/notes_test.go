package statedir_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/internal/statedir"
)

// TestJSONFiles: a file that does not exist leaves the value as it is, one that was
// written is read back, and one that is damaged is named in the error.
func TestJSONFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "sets.json")
	got := map[string]string{"kept": "yes"}
	if err := statedir.ReadJSON(statedir.Files(dir), "sets.json", &got); err != nil || got["kept"] != "yes" {
		t.Errorf("ReadJSON of no file = %v, %v, want the value as it was", got, err)
	}
	for _, want := range []string{"http://a.example/", "http://b.example/"} { // written and replaced
		if err := statedir.WriteJSON(statedir.Files(dir), "sets.json", map[string]string{"main": want}); err != nil {
			t.Fatal(err)
		}
		got = nil
		if err := statedir.ReadJSON(statedir.Files(dir), "sets.json", &got); err != nil || got["main"] != want {
			t.Errorf("ReadJSON = %v, %v, want %s", got, err, want)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("the directory has %v, %v, want one file", files, err)
	}
	if err := os.WriteFile(path, []byte(`{"main":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := statedir.ReadJSON(statedir.Files(dir), "sets.json", &got); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("ReadJSON of a damaged file = %v, want an error that names it", err)
	}
	if err := statedir.WriteJSON(statedir.Files(filepath.Join(dir, "none")), "sets.json", got); err == nil {
		t.Error("WriteJSON into a directory that does not exist returned no error")
	}
}
