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
	"lockstep/validate/finding"
)

// TestConsequencesAreNoFindings: an unusable value is one finding; that it is
// then missing is not another.
func TestConsequencesAreNoFindings(t *testing.T) {
	t.Parallel()
	const ns = `<?xml version="1.0" encoding="UTF-8"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">` +
		`<rs:ln rel="up" href="https://h.example/cl.xml"/>`
	for body, want := range map[string]string{
		`<rs:md capability="resourcelist" at="2024-13-01T00:00:00Z"/>`:                                                                                  "RS-DT-01.error",
		`<rs:md capability="changelist" from="yesterday"/>`:                                                                                             "RS-DT-01.error",
		`<rs:md capability="change-notification" from="2024-05-01T00:00:00Z" until="now"/>`:                                                             "RS-DT-01.error",
		`<rs:md capability="resourcedump-manifest" at="2024-05-01T00:00:00Z"/>` + entry(`path="/../a" type="text/plain"`):                               "RS-PATH-01.error",
		`<rs:md capability="resourcedump-manifest" at="2024-05-01T00:00:00Z"/>` + entry(`path="/a" type="text"`):                                        "RS-TYPE-01.error",
		`<rs:md capability="resourcedump" at="2024-05-01T00:00:00Z"/>` + entry(`type="application/zip" length="-1"`):                                    "RS-LEN-01.error",
		`<rs:md capability="changedump" from="2024-05-01T00:00:00Z"/>` + entry(`type="application/zip" length="1" from="x"`):                            "RS-DT-01.error",
		`<rs:md capability="changelist" from="2024-05-01T00:00:00Z"/>` + entry(`change="updated" datetime="x"`):                                         "RS-DT-01.error",
		`<rs:md capability="resourcedump" at="2024-05-01T00:00:00Z"/>` + entry(`type="application/zip" length="-1"`) + entry2(`type="application/zip"`): "RS-LEN-01.error RS-RD-03.warning",
	} {
		r, err := validate.Document(t.Context(), strings.NewReader(ns+body+"</urlset>"), "https://h.example/x.xml", validate.Options{Advice: true, TempDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		if got := notAdvice(r); got != want {
			t.Errorf("%s: %q, want %q: %v", body, got, want, r.Findings)
		}
		if strings.Contains(body, "datetime") && r.Advice > 0 {
			t.Errorf("%s: %v", body, r.Findings)
		}
	}
}

func entry(attrs string) string {
	return `<url><loc>https://h.example/a.zip</loc><rs:md ` + attrs + `/></url>`
}
func entry2(attrs string) string { return strings.Replace(entry(attrs), "a.zip", "b.zip", 1) }

// inTable checks that findings are of rules in the table.
func inTable(t testing.TB, r *finding.Report) {
	t.Helper()
	rows := map[string]bool{}
	for _, r := range finding.Rules() {
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
		case finding.Error:
			errors++
		case finding.Warning:
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
	paths := vectorFiles(t)
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
			name := strings.TrimSuffix(filepath.Base(path), ".xml")
			if strings.HasPrefix(name, "example-") {
				if got := notAdvice(r); got != printed[name] {
					t.Errorf("errors and warnings %q, want %q: %v", got, printed[name], r.Findings)
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
				if got := strings.Join(slices.Sorted(maps.Keys(rules)), " "); got != unkind[name] {
					t.Errorf("rules %q, want %q", got, unkind[name])
				}
			}
		})
	}
}

// vectorFiles returns the files of all vectors.
func vectorFiles(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", "testdata", "vectors", "*.xml"))
	if err != nil || len(paths) < 90 {
		t.Fatalf("%d vectors: %v", len(paths), err)
	}
	feeds, err := filepath.Glob(filepath.Join("..", "testdata", "feeds", "*.xml"))
	if err != nil || len(feeds) < 6 {
		t.Fatalf("%d vectors of feeds: %v", len(feeds), err)
	}
	return append(paths, feeds...)
}

// notAdvice returns the rules of the errors and warnings of a report, each with
// its level once.
func notAdvice(r *finding.Report) string {
	rules := map[string]bool{}
	for _, f := range r.Findings {
		if f.Level != finding.Advice {
			rules[f.Rule+"."+string(f.Level)] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(rules)), " ")
}

// printed are the examples of the specifications that do not follow all
// requirements and advice of their own text, with the violated rules. Only one
// has an error: in Example 5 of Atom-PMH an entry is later than its feed.
var printed = map[string]string{
	// Examples 1 to 5 and 8 have no link up, which sections 10 to 13 call
	// mandatory; some lack recommended parts.
	"example-core-01": "RS-RL-02.warning", "example-core-02": "RS-RL-02.warning", "example-core-03": "RS-CHL-01.warning",
	"example-core-04": "RS-RD-01.warning RS-RD-03.warning", "example-core-05": "RS-RDM-01.warning RS-RDM-03.warning",
	"example-core-08": "RS-RLI-01.warning",
	"example-core-27": "RS-HASH-02.warning", // section 7 has hex only
	// Those of Atom-PMH have neither authors nor links to themselves (RFC 4287, 4.1.1).
	"example-atom-pmh-entries": unsigned, "example-atom-pmh-updates": unsigned, "example-atom-pmh-complete": unsigned,
	"example-atom-pmh-1": unsigned, "example-atom-pmh-2": unsigned, "example-atom-pmh-5": unsigned + " AP-TS-01.error",
	// Version 0.9 called the link up resourcesync, and had a link via for each Source.
	"example-0.9-8-8": "RS-CHL-01.warning", "example-0.9-8-9": "RS-CHL-01.warning", "example-0.9-8-10": "RS-CHL-01.warning RS-REL-71.warning",
	// XML 1.0, 2.8 recommends an XML declaration.
	"example-notification-7": "RS-XML-01.warning", "example-framework-notification-8": "RS-XML-01.warning",
}

const unsigned = "AP-DOC-02.warning AP-DOC-03.warning"

// unkind are the vectors that a strict reader accepts, but that no Source
// should write, with the violated rules.
var unkind = map[string]string{
	"capability-unknown": "RS-GEN-06", "community-attributes": "RS-XML-07", "datetime-equal": "RS-DT-01", "datetime-offset": "RS-DT-01",
	"changes-lastmod-disorder": "RS-EM-03", "text-between": "RS-XML-03",
	"dump-open-package": "RS-CD-06", "manifest-canonical": "RS-HASH-02", "memento-dates": "RS-HASH-02",
	"dialect-0.9.1-changes": "RS-EM-03", "loc-trimmed": "RS-XML-09", "manifest-changes": "RS-CDM-04",
	"plain-sitemap-index": "RS-MD-01", "plain-sitemap": "RS-DT-01 RS-MD-01", "prefix-free": "RS-DT-01 RS-XML-01",
}
