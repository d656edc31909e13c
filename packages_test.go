package lockstep_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// tableRow matches a row of the table of packages.
var tableRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\|$")

// TestPackageTable checks that the table in docs/architecture.md has each package once, except
// the suites and servers that only tests use.
func TestPackageTable(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]int{}
	for _, m := range tableRow.FindAllStringSubmatch(string(text), -1) {
		rows[m[1]]++
	}
	for _, r := range importRules {
		if n := rows[r.path]; n != 1 && !strings.HasSuffix(r.path, "test") && !strings.HasSuffix(r.path, "/...") {
			t.Errorf("docs/architecture.md has %d rows for package %s, want 1", n, r.path)
		}
	}
	for name := range rows {
		if ruleOf(name) == nil {
			t.Errorf("docs/architecture.md has a row for %s, which is not a package", name)
		}
	}
}
