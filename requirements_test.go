package lockstep_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	requirementID = regexp.MustCompile(`\b(RS|RN|WS|RA|ME|AP)-[A-Z]+-[0-9]+\b|\bWR-[HSP]-[0-9]+\b`)
	idRange       = regexp.MustCompile(`\b(RS-[A-Z]+-)([0-9]+) to RS-[A-Z]+-([0-9]+)\b`)
)

// explainedIDs returns the requirement IDs a page of docs explains.
func explainedIDs(t *testing.T, page string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("docs", page))
	if err != nil {
		t.Fatal(err)
	}
	explained := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		ids, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		if !ok || !strings.HasPrefix(line, "| R") && !strings.HasPrefix(line, "| W") && !strings.HasPrefix(line, "| ME-") && !strings.HasPrefix(line, "| AP-") {
			continue
		}
		for _, id := range requirementID.FindAllString(ids, -1) {
			explained[id] = true
		}
		for _, m := range idRange.FindAllStringSubmatch(ids, -1) {
			first, _ := strconv.Atoi(m[2]) // digits
			last, _ := strconv.Atoi(m[3])
			for n := first; n <= last; n++ {
				explained[fmt.Sprintf("%s%02d", m[1], n)] = true
			}
		}
	}
	return explained
}

// eachGoFile calls see with every Go file of the module.
func eachGoFile(t *testing.T, see func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
			if d != nil && d.IsDir() && d.Name() == ".git" {
				return fs.SkipDir
			}
			return err
		}
		text, err := os.ReadFile(path)
		see(path, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRequirements: every requirement ID in the code is explained in
// docs/requirements.md or a page beside it.
func TestRequirements(t *testing.T) {
	t.Parallel()
	explained := explainedIDs(t, "requirements.md")
	maps.Copy(explained, explainedIDs(t, "requirements-notification.md"))
	maps.Copy(explained, explainedIDs(t, "requirements-archives.md"))
	maps.Copy(explained, explainedIDs(t, "requirements-feeds.md"))
	eachGoFile(t, func(path, text string) {
		for _, id := range requirementID.FindAllString(text, -1) {
			if !explained[id] {
				t.Errorf("%s speaks of %s, which docs/requirements.md does not explain", path, id)
				explained[id] = true // once is enough
			}
		}
	})
}

// untestable are the requirements that no test can show, and why.
var untestable = map[string]string{
	"RS-GEN-03": "defines words",
	"RS-SMC-02": "is advice on where resources should be, for search engines; the operator decides",
	"RS-VER-20": "permits a form of documents that ours does not offer",
	"RN-FW-01":  "is history",
	"RA-DST-05": "permits a choice by cost; ours is made beyond 20,000 archived documents, more than a test should write",
	"RA-DST-09": "permits something that ours does not use",
	"ME-GEN-01": "defines words",
	"ME-GEN-02": "defines words",
	"ME-LK-05":  "permits something",
	"ME-MM-06":  "is about resources that never change; ours may",
	"ME-IM-03":  "permits something",
	"ME-TM-08":  "permits something",
	"AP-GEN-07": "defines words",
}

// decidedBy are decisions on contradictions of the standard, and the
// requirement by whose tests each is shown.
var decidedBy = map[string]string{
	"RS-AMB-06": "RS-CHL-03",
	"RS-AMB-08": "RS-CDM-01",
	"RS-AMB-09": "RS-CHI-04",
	"RS-AMB-10": "RS-RDI-01",
	"RS-AMB-18": "RS-RDM-01",
}

// testedIDs returns the IDs that a test names: in its code, or in the name or
// the text of one of its vectors and scripts.
func testedIDs(t *testing.T) map[string]bool {
	t.Helper()
	tested := map[string]bool{}
	note := func(text string) {
		for _, id := range requirementID.FindAllString(text, -1) {
			tested[id] = true
		}
		for _, m := range idRange.FindAllStringSubmatch(text, -1) {
			first, _ := strconv.Atoi(m[2]) // digits
			last, _ := strconv.Atoi(m[3])
			for n := first; n <= last; n++ {
				tested[fmt.Sprintf("%s%02d", m[1], n)] = true
			}
		}
	}
	eachGoFile(t, func(path, text string) {
		if strings.HasSuffix(path, "_test.go") && path != "requirements_test.go" {
			note(text)
		}
	})
	for _, pattern := range []string{"testdata/rules/*", "testdata/vectors/*", "testdata/feeds/*", "cmd/lockstep/testdata/script/*"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			note(filepath.Base(file) + "\n" + string(text))
		}
	}
	return tested
}

// TestRequirementsTested: every requirement is named by a test, or listed above
// with the reason why none can show it.
func TestRequirementsTested(t *testing.T) {
	t.Parallel()
	required := explainedIDs(t, "requirements.md")
	for _, page := range []string{"requirements-notification.md", "requirements-archives.md", "requirements-feeds.md"} {
		maps.Copy(required, explainedIDs(t, page))
	}
	tested := testedIDs(t)
	for id := range untestable {
		if !required[id] || tested[id] {
			t.Errorf("%s is listed as untestable, and is tested or no requirement", id)
		}
		delete(required, id)
	}
	for id, by := range decidedBy {
		if tested[by] {
			delete(required, id)
		}
	}
	maps.DeleteFunc(required, func(id string, _ bool) bool { return tested[id] })
	for _, id := range slices.Sorted(maps.Keys(required)) {
		t.Errorf("no test names %s", id)
	}
}
