package filename_test

import (
	"os"
	"regexp"
	"testing"

	"lockstep/destination/filename"
)

// The tables of the guide are true.
func TestGuide(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/guide/files.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `([^`]+)` \\|").FindAllSubmatch(text, -1)
	if len(rows) < 15 {
		t.Fatalf("found %d rows", len(rows))
	}
	p := newMapping(t, filename.Options{})
	for _, row := range rows {
		uri, want := string(row[1]), string(row[2])
		if got, err := p.Path(uri); got != want || err != nil {
			t.Errorf("Path(%q) = %q, %v, want %q", uri, got, err, want)
		}
	}
}
