package known_test

import (
	"fmt"
	"testing"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/known"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// A part is not looked for where there are very many rows of other sets between its
// resources: with many such parts that would take long.
func TestRowsOfOtherSets(t *testing.T) {
	t.Parallel()
	resource := func(e *resourcesync.Entry) desired.Resource {
		return desired.Resource{URI: e.Loc, Length: -1}
	}
	for _, tt := range []struct {
		others int
		found  bool
	}{{0, true}, {500, true}, {5000, false}} {
		j := new(journal.Mem)
		var rows []journal.Held
		for _, uri := range []string{"a", "z"} {
			rows = append(rows, journal.Held{URI: uri, Sets: []int{1}, Stated: &journal.Stated{Length: -1}})
		}
		for i := range tt.others {
			rows = append(rows, journal.Held{URI: fmt.Sprint("m", i), Sets: []int{2}, Stated: &journal.Stated{Length: -1}})
		}
		var stated known.Digest
		for _, uri := range []string{"a", "z"} {
			stated.Add(&desired.Resource{URI: uri, Length: -1})
		}
		err := j.Record(t.Context(), journal.Batch{Put: rows})
		var parts *known.Parts
		if err == nil {
			parts, err = known.Load(t.Context(), j, 1)
		}
		if err == nil {
			parts.Record("part", stated.Part(saved.Validators{ETag: "e"}, resourcesync.Datetime{}))
			err = parts.Save(t.Context(), true)
		}
		if err == nil {
			parts, err = known.Load(t.Context(), j, 1)
		}
		if err != nil {
			t.Fatal(err)
		}
		part, err := parts.Proven(t.Context(), "part", resource)
		if err != nil || (part != nil) != tt.found {
			t.Errorf("%d rows of another set: %v, %v, want it found: %v", tt.others, part, err, tt.found)
		}
	}
}
