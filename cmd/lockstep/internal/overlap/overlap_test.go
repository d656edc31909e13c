package overlap_test

import (
	"fmt"
	"strings"
	"testing"

	"lockstep/catalog"
	"lockstep/cmd/lockstep/internal/overlap"
)

// TestReport reports the first address at which two sets have different files, wherever it is
// among many others, and none where the files are the same.
func TestReport(t *testing.T) {
	t.Parallel()
	const base = "http://h/"
	many := func(dir string) (paths []string) {
		for i := range 1200 {
			paths = append(paths, fmt.Sprintf("%s%04d", dir, i))
		}
		return paths
	}
	for _, tt := range []struct {
		name         string
		aURI, aDir   string
		aPaths       []string
		bURI, bDir   string
		bPaths       []string
		want         string
		wantA, wantB string
	}{
		{"same", base, "x", []string{"a", "b c"}, base, "y", []string{"0", "b c"}, base + "b%20c", "x/b c", "y/b c"},
		{"within", base, "x", []string{"a", "q/z", "z"}, base + "q/", "y", []string{"a", "z"}, base + "q/z", "x/q/z", "y/z"},
		{"many", base, "x", append(many("m"), "z"), base, "y", append(many("n"), "z"), base + "z", "x/z", "y/z"},
		{"none", base, "x", many("a"), base, "y", many("b"), "", "", ""},
		{"apart", base + "p/", "x", []string{"a"}, base + "q/", "y", []string{"a"}, "", "", ""},
		{"same files", base, "x", []string{"q/a"}, base + "q/", "x/q", []string{"a"}, "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cat := catalog.NewMem(nil)
			for list, paths := range map[string][]string{tt.aURI + " a": tt.aPaths, tt.bURI + " b": tt.bPaths} {
				var updates []catalog.Update
				for _, p := range paths {
					uri := strings.Fields(list)[0] + strings.ReplaceAll(p, " ", "%20")
					updates = append(updates, catalog.Update{Record: catalog.Record{URI: uri, Length: -1}})
				}
				if _, err := cat.Apply(t.Context(), list, updates); err != nil {
					t.Fatal(err)
				}
			}
			var found []error
			overlap.Report(t.Context(), cat, []overlap.Set{
				{Name: "one", List: tt.aURI + " a", URI: tt.aURI, Dir: tt.aDir}, {Name: "two", List: tt.bURI + " b", URI: tt.bURI, Dir: tt.bDir},
				{Name: "other", List: tt.aURI + " a", URI: tt.aURI},
			}, func(err error) { found = append(found, err) })
			switch {
			case (len(found) == 1) != (tt.want != ""):
				t.Errorf("found %v, want %s", found, tt.want)
			case tt.want != "" && !strings.Contains(found[0].Error(), "sets one and two publish different files at "+tt.want+": "+tt.wantA+" and "+tt.wantB+";"):
				t.Errorf("found %v, want %s", found, tt.want)
			}
		})
	}
}
