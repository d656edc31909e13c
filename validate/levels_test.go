package validate_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"lockstep/validate"
	"lockstep/validate/finding"
	"lockstep/validate/opener"
)

// TestLegal: what no standard forbids is not an error.
func TestLegal(t *testing.T) {
	t.Parallel()
	const up = `<rs:ln rel="up" href="https://lib.example.net/rs/capabilitylist.xml"/>`
	const changes = up + `<rs:md capability="changelist" from="2024-04-01T00:00:00Z"/>`
	const list = up + `<rs:md capability="resourcelist" at="2024-05-01T02:00:00Z"/>`
	const sum = "d41d8cd98f00b204e9800998ecf8427e"
	for name, body := range map[string]string{
		"no XML declaration":                  "-" + list + `<url><loc>https://lib.example.net/a</loc></url>`,
		"foreign elements in front":           list + `<x:y xmlns:x="urn:x"/><url><x:z xmlns:x="urn:x"/><loc>https://lib.example.net/a</loc></url><x:y xmlns:x="urn:x"/>`,
		"rs elements in any order":            list + `<url><rs:ln rel="via" href="https://lib.example.net/b"/><rs:md length="1"/><loc>https://lib.example.net/a</loc></url>`,
		"metadata behind the entries":         `<url><loc>https://lib.example.net/a</loc></url>` + list,
		"a package without until":             up + `<rs:md capability="changedump" from="2024-04-01T00:00:00Z"/><url><loc>https://lib.example.net/a.zip</loc><rs:md from="2024-04-01T00:00:00Z"/></url>`,
		"application/json-patch":              changes + `<url><loc>https://lib.example.net/a</loc><rs:md change="updated" datetime="2024-04-02T00:00:00Z"/><rs:ln rel="http://www.openarchives.org/rs/terms/patch" href="https://lib.example.net/p" type="application/json-patch"/></url>`,
		"equal datetimes":                     changes + strings.Repeat(`<url><loc>https://lib.example.net/a</loc><rs:md change="updated" datetime="2024-04-02T00:00:00Z"/></url>`, 2),
		"unknown hash algorithm":              list + `<url><loc>https://lib.example.net/a</loc><rs:md hash="blake3:00 md5:` + sum + `"/></url>`,
		"upper-case digest":                   list + `<url><loc>https://lib.example.net/a</loc><rs:md hash="MD5:` + strings.ToUpper(sum) + `"/></url>`,
		"metadata on a deletion":              changes + `<url><loc>https://lib.example.net/a</loc><lastmod>2024-04-02T00:00:00Z</lastmod><rs:md change="deleted" datetime="2024-04-02T00:00:00Z" hash="md5:` + sum + `" length="0" type="text/plain"/></url>`,
		"overlapping intervals of packages":   up + `<rs:md capability="changedump" from="2024-04-01T00:00:00Z"/><url><loc>https://lib.example.net/a.zip</loc><rs:md from="2024-04-01T00:00:00Z" until="2024-04-10T00:00:00Z"/></url><url><loc>https://lib.example.net/b.zip</loc><rs:md from="2024-04-05T00:00:00Z" until="2024-04-12T00:00:00Z"/></url>`,
		"non-adjacent intervals of an index":  "#" + up + `<rs:md capability="changelist" from="2024-04-01T00:00:00Z"/><sitemap><loc>https://lib.example.net/a.xml</loc><rs:md from="2024-04-01T00:00:00Z" until="2024-04-02T00:00:00Z"/></sitemap><sitemap><loc>https://lib.example.net/b.xml</loc><rs:md from="2024-04-05T00:00:00Z"/></sitemap>`,
		"overlapping intervals of an archive": up + `<rs:md capability="changelist-archive"/><url><loc>https://lib.example.net/a.xml</loc><rs:md from="2024-04-01T00:00:00Z" until="2024-04-10T00:00:00Z"/></url><url><loc>https://lib.example.net/b.xml</loc><rs:md from="2024-04-05T00:00:00Z" until="2024-04-12T00:00:00Z"/></url>`,
		"no datetime":                         changes + `<url><loc>https://lib.example.net/a</loc><rs:md change="updated"/></url>`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			decl, root := `<?xml version="1.0" encoding="UTF-8"?>`, "urlset"
			switch body[0] {
			case '-':
				decl, body = "", body[1:]
			case '#':
				root, body = "sitemapindex", body[1:]
			}
			doc := decl + `<` + root + ` xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">` + body + `</` + root + `>`
			for _, strict := range []bool{false, true} {
				for _, advice := range []bool{false, true} {
					r, err := validate.Document(t.Context(), strings.NewReader(doc), "https://lib.example.net/x.xml", validate.Options{Strict: strict, Advice: advice, TempDir: t.TempDir()})
					if err != nil {
						t.Fatal(err)
					}
					if !strict && r.Errors > 0 {
						t.Errorf("errors: %v", r.Findings)
					}
					if r.Advice+r.Warnings+r.Errors == 0 && name != "foreign elements in front" {
						t.Error("nothing is said")
					}
					for _, f := range r.Findings {
						if f.Section == "" || f.Level == finding.Advice && !advice {
							t.Errorf("advice %v: %+v", advice, f)
						}
					}
				}
			}
		})
	}
}

// TestRuleSections: every rule names the section of the document from which it
// follows, and advice is marked as this project's own.
func TestRuleSections(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, r := range finding.Rules() {
		key := r.ID + " " + string(r.Level)
		if seen[key] {
			t.Errorf("%s has two rows", key)
		}
		seen[key] = true
		if r.Section == "" || (r.Level == finding.Advice) != strings.HasPrefix(r.Section, "Lockstep, on ") {
			t.Errorf("%s: section %q", key, r.Section)
		}
	}
}

// TestReportedOnce: a document is reported once, however it is reached: several
// sets name the same list, redirects lead to it, and several addresses are
// checked in one run.
func TestReportedOnce(t *testing.T) {
	t.Parallel()
	const ns = ` xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`
	doc := func(body string) string { return `<?xml version="1.0"?><urlset` + ns + body + `</urlset>` }
	capability := doc(`<rs:ln rel="up" href="https://h.example/sd.xml"/><rs:ln rel="describedby" href="https://h.example/i"/><rs:md capability="capabilitylist"/>` +
		`<url><loc>https://h.example/LIST</loc><rs:md capability="resourcelist"/></url>`)
	pages := map[string]string{
		"/sd.xml": doc(`<rs:ln rel="describedby" href="https://h.example/i"/><rs:md capability="description"/>` +
			`<url><loc>https://h.example/1/cl.xml</loc><rs:md capability="capabilitylist"/></url><url><loc>https://h.example/2/cl.xml</loc><rs:md capability="capabilitylist"/></url>`),
		"/1/cl.xml": strings.Replace(capability, "LIST", "list.xml", 1),
		"/2/cl.xml": strings.Replace(capability, "LIST", "moved.xml", 1),
		"/list.xml": doc(`<rs:md capability="resourcelist" at="2024-05-01T02:00:00Z"/><url><loc>https://h.example/a</loc><changefreq>often</changefreq></url>`),
	}
	open := func(_ context.Context, r opener.Request) (*opener.Answer, error) {
		path := strings.TrimPrefix(r.URI, "https://h.example")
		final := r.URI
		if path == "/moved.xml" {
			path, final = "/list.xml", "https://h.example/list.xml"
		}
		text, ok := pages[path]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return &opener.Answer{URI: final, Size: int64(len(text)), Body: io.NopCloser(strings.NewReader(text))}, nil
	}
	for _, starts := range [][]string{{"/sd.xml"}, {"/1/cl.xml", "/2/cl.xml"}, {"/sd.xml", "/2/cl.xml", "/sd.xml"}} {
		var addresses []string
		for _, s := range starts {
			addresses = append(addresses, "https://h.example"+s)
		}
		r, err := validate.Sources(t.Context(), open, addresses, validate.Options{TempDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		count := map[string]int{}
		for _, f := range r.Findings {
			count[fmt.Sprint(f.Rule, f.Location, f.Message)]++
		}
		if n := len(r.Findings); r.Errors == 0 || n != len(count) {
			t.Errorf("from %v: %d findings, %d different: %v", starts, n, len(count), r.Findings)
		}
		if starts[0] == "/sd.xml" && (r.Documents != 5 || r.Entries != 6) {
			t.Errorf("from %v: %d documents, %d entries", starts, r.Documents, r.Entries)
		}
	}
}
