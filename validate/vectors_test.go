package validate_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep/validate"
)

// inTable reports whether findings are of rules of the table.
func inTable(t testing.TB, r *validate.Report) {
	t.Helper()
	rows := map[string]bool{}
	for _, r := range validate.Rules() {
		rows[r.ID+" "+string(r.Level)] = true
	}
	errors, warnings, advice := 0, 0, 0
	for _, f := range r.Findings {
		if !rows[f.Rule+" "+string(f.Level)] {
			t.Errorf("%s: no such rule", f)
		}
		if f.Section == "" {
			t.Errorf("%s: no section", f)
		}
		switch f.Level {
		case validate.Error:
			errors++
		case validate.Warning:
			warnings++
		default:
			advice++
		}
	}
	if r.Omitted == 0 && (errors != r.Errors || warnings != r.Warnings || advice != 0 && advice != r.Advice) {
		t.Errorf("%d errors, %d warnings, %d of advice are listed, %d, %d and %d counted", errors, warnings, advice, r.Errors, r.Warnings, r.Advice)
	}
}

// TestVectors: what a strict reader refuses has findings; what every reader
// refuses has errors.
func TestVectors(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(filepath.Join("..", "testdata", "vectors", "*.xml"))
	if err != nil || len(paths) < 90 {
		t.Fatalf("%d vectors: %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".xml"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			head, doc, _ := bytes.Cut(text, []byte("-->\n"))
			o := validate.Options{Advice: true, DocumentBytes: 1 << 20, TempDir: t.TempDir()}
			r, err := validate.Document(t.Context(), bytes.NewReader(doc), "https://vectors.example/rs/document.xml", o)
			if err != nil {
				t.Fatal(err)
			}
			inTable(t, r)
			if strings.HasPrefix(filepath.Base(path), "example-") {
				if r.Errors > 0 {
					t.Errorf("an example of a specification has errors: %v", r.Findings)
				}
				return
			}
			switch {
			case strings.Contains(string(head), "\nexpect: refused\n"):
				if r.Errors == 0 {
					t.Errorf("refused, but no error: %v", r.Findings)
				}
			case strings.Contains(string(head), "\nexpect: accepted with warnings\n"):
				if len(r.Findings) == 0 {
					t.Error("no finding")
				}
			default:
				rules := map[string]bool{}
				for _, f := range r.Findings {
					rules[f.Rule] = true
				}
				name := strings.TrimSuffix(filepath.Base(path), ".xml")
				if got := strings.Join(slices.Sorted(maps.Keys(rules)), " "); got != unkind[name] {
					t.Errorf("rules %q, want %q", got, unkind[name])
				}
			}
		})
	}
}

// unkind are the vectors that a strict reader accepts, for it can do so without
// a liberty, but that no Source should write: with the rules against that.
var unkind = map[string]string{
	"capability-unknown": "RS-GEN-06", "community-attributes": "RS-XML-07", "datetime-equal": "RS-DT-01", "datetime-offset": "RS-DT-01",
	"dialect-0.9.1-changes": "RS-EM-03", "loc-trimmed": "RS-XML-09", "manifest-changes": "RS-CDM-04",
	"plain-sitemap-index": "RS-MD-01", "plain-sitemap": "RS-DT-01 RS-MD-01", "prefix-free": "RS-DT-01 RS-XML-01",
}
