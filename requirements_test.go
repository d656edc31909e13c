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

// untested are the requirements of Change Notification and WebSub that no test
// can show: they name things, leave something free, or bind nobody we are.
var untested = map[string]string{
	"RN-FW-01": "history",
	"WS-H-06":  "a hub may name another; ours does not",
	"WS-S-07":  "other hubs may want more parameters; nothing is known of them",
	"WS-P-06":  "how an operator moves a topic",
}

// unseenPast are those of Archives and Memento.
var unseenPast = map[string]string{
	"RA-GEN-02": "says that archives are optional",
	"RA-ADV-05": "says what archives have no part in",
	"RA-DST-05": "leaves something free that ours does not use",
	"RA-DST-09": "likewise",
	"RA-IDX-05": "leaves free how parts are cut",
	"ME-GEN-01": "names things",
	"ME-GEN-02": "names things",
	"ME-LK-05":  "leaves something free",
	"ME-MM-06":  "is about resources that never change; ours may",
	"ME-IM-02":  "leaves something free",
	"ME-IM-03":  "leaves something free",
	"ME-TM-08":  "leaves something free",
}

// unseenFeeds are those of Atom-PMH.
var unseenFeeds = map[string]string{
	"AP-GEN-01": "names things",
	"AP-GEN-07": "names things",
	"AP-DOC-13": "leaves something free",
	"AP-TS-08":  "leaves something free that ours does not use",
	"AP-HIS-03": "leaves something free",
}

// TestRequirementsTested: every requirement of Change Notification, WebSub,
// Archives, Memento and Atom-PMH is named by a test.
func TestRequirementsTested(t *testing.T) {
	t.Parallel()
	missing := explainedIDs(t, "requirements-notification.md")
	maps.Copy(missing, explainedIDs(t, "requirements-archives.md"))
	maps.Copy(missing, explainedIDs(t, "requirements-feeds.md"))
	for _, unseen := range []map[string]string{untested, unseenPast, unseenFeeds} {
		for id := range unseen {
			delete(missing, id)
		}
	}
	eachGoFile(t, func(path, text string) {
		if !strings.HasSuffix(path, "_test.go") || path == "requirements_test.go" {
			return
		}
		for _, id := range requirementID.FindAllString(text, -1) {
			delete(missing, id)
		}
	})
	for _, id := range slices.Sorted(maps.Keys(missing)) {
		t.Errorf("no test names %s", id)
	}
}
