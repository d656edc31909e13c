package health

import (
	"slices"
	"testing"
	"unicode/utf8"
)

// TestTablesFitTheTerminal: columns are aligned, lines are no wider than the terminal, and
// an error keeps its beginning and its end, on a line of its own where there is no room.
func TestTablesFitTheTerminal(t *testing.T) {
	t.Parallel()
	table := func() [][]string {
		return [][]string{
			{"UPSTREAM", "STATE", "RESOURCES", "ERROR"},
			{"ä", "hub", "1", ""},
			{"a-name-that-is-longer-than-names-may-be-on-a-terminal", "failing", "1,204", "get http://x.example.org/some/path: connect: connection refused"},
		}
	}
	for width, want := range map[int][]string{
		0: {
			"UPSTREAM                                               STATE    RESOURCES  ERROR",
			"ä                                                      hub              1",
			"a-name-that-is-longer-than-names-may-be-on-a-terminal  failing      1,204  get http://x.example.org/some/path: connect: connection refused",
		},
		92: {
			"UPSTREAM                        STATE    RESOURCES  ERROR",
			"ä                               hub              1",
			"a-name-that-is-longer-than-na…  failing      1,204  get http://x.exampl…: connection refused",
		},
		50: {
			"UPSTREAM          STATE    RESOURCES",
			"ä                 hub              1",
			"a-name-that-is-…  failing      1,204",
			"  get http://x.example.or…nect: connection refused",
		},
	} {
		got := layOut(table(), width)
		if !slices.Equal(got, want) {
			t.Errorf("%d columns:\n%q\nwant\n%q", width, got, want)
		}
		for _, line := range got {
			if n := utf8.RuneCountInString(line); width > 0 && n > width {
				t.Errorf("%d characters in %d columns: %s", n, width, line)
			}
		}
	}
}
