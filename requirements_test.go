package lockstep_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	requirementID = regexp.MustCompile(`\bRS-[A-Z]+-[0-9]+\b`)
	idRange       = regexp.MustCompile(`\b(RS-[A-Z]+-)([0-9]+) to RS-[A-Z]+-([0-9]+)\b`)
)

// TestRequirements: every requirement ID in the code is explained in
// docs/requirements.md.
func TestRequirements(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("docs", "requirements.md"))
	if err != nil {
		t.Fatal(err)
	}
	explained := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| RS-") {
			continue
		}
		for _, id := range requirementID.FindAllString(line, -1) {
			explained[id] = true
		}
		for _, m := range idRange.FindAllStringSubmatch(line, -1) {
			first, _ := strconv.Atoi(m[2]) // digits
			last, _ := strconv.Atoi(m[3])
			for n := first; n <= last; n++ {
				explained[fmt.Sprintf("%s%02d", m[1], n)] = true
			}
		}
	}
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
			if d != nil && d.IsDir() && d.Name() == ".git" {
				return fs.SkipDir
			}
			return err
		}
		text, err := os.ReadFile(path)
		for _, id := range requirementID.FindAllString(string(text), -1) {
			if !explained[id] {
				t.Errorf("%s speaks of %s, which docs/requirements.md does not explain", path, id)
				explained[id] = true // once is enough
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
