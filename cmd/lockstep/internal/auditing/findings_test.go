package auditing

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
)

// FuzzCSV writes rows that read back as they were, but for what a spreadsheet
// would take for a formula.
func FuzzCSV(f *testing.F) {
	f.Add("=1+1", "a,b\n\"c\"")
	f.Add("\t@x", "-1")
	f.Fuzz(func(t *testing.T, a, b string) {
		var buf bytes.Buffer
		if err := writeRow(&buf, a, b, "x"); err != nil {
			t.Fatal(err)
		}
		row, err := csv.NewReader(&buf).Read()
		if err != nil || len(row) != 3 {
			t.Fatalf("%q, %q: read back %q, %v", a, b, row, err)
		}
		lines := strings.NewReplacer("\r", "") // there are none in what is fit to be printed, and the reader drops some
		for i, want := range []string{a, b} {
			got := row[i]
			if got != "" && strings.IndexByte("=+-@\t\r", got[0]) >= 0 {
				t.Errorf("%q is a formula", got)
			}
			if lines.Replace(strings.TrimPrefix(got, "'")) != lines.Replace(strings.TrimPrefix(want, "'")) {
				t.Errorf("read back %q, want %q", got, want)
			}
		}
	})
}

// TestFindings writes a report that is there whole, or not at all.
func TestFindings(t *testing.T) {
	t.Parallel()
	length := int64(3)
	some := []destination.Finding{
		{Kind: destination.Corrupt, Set: "main", URI: "http://x.org/a", Path: "=a", Cause: "why",
			Expected: &destination.Facts{Hash: "md5:00", Length: &length, Lastmod: time.Unix(0, 0)}, Found: &destination.Facts{Length: &length}},
		{Kind: destination.Foreign, Path: "b", Cause: "why, indeed"},
	}
	r := destination.AuditReport{Source: "http://x.org/", Corrupt: 1, Foreign: 1, Findings: some[:1]}
	dir := t.TempDir()
	for _, name := range []string{"r.json", "r.jsonl", "r.csv"} {
		path := filepath.Join(dir, name)
		for _, whole := range []bool{false, true} {
			f, err := openFindings(path, "", term.IO{Out: os.Stdout})
			if err != nil {
				t.Fatal(err)
			}
			for i := range some {
				f.add(&some[i])
			}
			if err := f.close(&result{AuditReport: r, Error: "not in step"}, whole); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(path); (err == nil) != whole {
				t.Errorf("%s: whole is %v: %v", name, whole, err)
			}
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var got []destination.Finding
		switch name {
		case "r.json":
			var doc destination.AuditReport
			err = json.Unmarshal(text, &doc)
			got = doc.Findings
			if doc.Corrupt != 1 || doc.Source != r.Source || !strings.Contains(string(text), `"error":"not in step"`) {
				t.Errorf("%s", text)
			}
		case "r.jsonl":
			for line := range bytes.Lines(text) {
				var x destination.Finding
				err = errors.Join(err, json.Unmarshal(line, &x))
				got = append(got, x)
			}
		case "r.csv":
			want := "corrupt,main,http://x.org/a,'=a,md5:00,3,1970-01-01T00:00:00Z,,3,,why\nforeign,,,b,,,,,,,\"why, indeed\"\n"
			if _, rest, _ := strings.Cut(string(text), "\n"); rest != want {
				t.Errorf("%q, want %q", rest, want)
			}
			continue
		}
		if err != nil || !slices.EqualFunc(got, some, func(a, b destination.Finding) bool { return a.Kind == b.Kind && a.Path == b.Path && a.Cause == b.Cause }) {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 3 {
		t.Errorf("left behind: %v", left)
	}
}
