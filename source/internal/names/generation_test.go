package names_test

import (
	"slices"
	"testing"
	"time"

	"lockstep/source/internal/names"
)

// An instant of which any document exists is not used again: parts of a list may be those
// of earlier ones, and stay when others of their generation are gone.
func TestGeneration(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 1, 2, 0, 0, 0, time.UTC)
	const stamp = "20260501T020000.0000000Z"
	main := names.Set("main")
	for _, tt := range []struct {
		there []string
		want  string
	}{
		{nil, stamp},
		{[]string{main.ResourceListPart(stamp, 7)}, stamp + ".2"},
		{[]string{main.ResourceListCopy(stamp)}, stamp + ".2"},
		{[]string{main.ResourceListPart(stamp, 1) + ".gz"}, stamp + ".2"},
		{[]string{main.ResourceListPart(stamp, 2), main.ResourceListPart(stamp+".2", 3)}, stamp + ".3"},
		{[]string{main.ResourceListPart(stamp+".2", 3)}, stamp},
		{[]string{names.Set("other").ResourceListPart(stamp, 1), main.ChangeListPart(at, 1), main.ResourceListPart("20260501T020000.0000001Z", 1)}, stamp},
	} {
		if got := main.Generation(at, slices.Values(tt.there)); got != tt.want {
			t.Errorf("with %q: %s, want %s", tt.there, got, tt.want)
		}
	}
}
