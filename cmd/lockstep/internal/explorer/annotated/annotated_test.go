package annotated_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"strings"
	"testing"

	"lockstep/cmd/lockstep/internal/explorer/annotated"
	"lockstep/cmd/lockstep/internal/explorer/spool"
)

func lines(t *testing.T, document []byte) (rows []spool.Row, facts map[string]string) {
	t.Helper()
	d := &annotated.Document{Address: "http://example.org/resourcelist.xml", Dir: t.TempDir(), Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(document)), nil
	}}
	result, err := d.Read(t.Context(), "", func(r *spool.Row) error {
		rows = append(rows, *r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	facts = map[string]string{}
	for _, f := range result.Facts {
		facts[f.Name] += f.Value
	}
	return rows, facts
}

const broken = `<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:md capability="resourcelist" at="2026-01-01T00:00:00Z"/>
<url><loc>http://example.org/good</loc></url>
<url><loc>http://example.org/bad</loc><rs:md length="many"/></url>
</urlset>`

// TestFindings has each finding beside the line that it concerns, also if the document is
// a single line, or compressed.
func TestFindings(t *testing.T) {
	t.Parallel()
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(z, broken)
	_ = z.Close()
	for name, document := range map[string][]byte{"lines": []byte(broken), "one line": []byte(strings.ReplaceAll(broken, "\n", "")), "gzip": zipped.Bytes()} {
		rows, facts := lines(t, document)
		if facts["errors"] == "0" {
			t.Errorf("%s: the facts are %v", name, facts)
		}
		n := 0
		for i, r := range rows {
			if r.Type != annotated.Finding || !strings.Contains(r.Detail.Facts[0].Value, "many") {
				continue
			}
			n++
			// The finding is beside a line of the second entry.
			entry := ""
			for _, e := range rows[:i+1] {
				if strings.HasPrefix(e.URI, "<loc>") {
					entry = e.URI
				}
			}
			if entry != "<loc>http://example.org/bad</loc>" {
				t.Errorf("%s: the finding %v is beside %s of %s", name, r.Detail.Facts, r.URI, entry)
			}
		}
		if n != 1 {
			t.Errorf("%s: %d lines have the finding: %+v", name, n, rows)
		}
	}
}

// TestNotXML shows whatever there is.
func TestNotXML(t *testing.T) {
	t.Parallel()
	rows, facts := lines(t, []byte("no XML <at all"))
	if len(rows) != 2 || rows[0].URI != "no XML" || facts["errors"] == "0" {
		t.Errorf("%+v, %v", rows, facts)
	}
}
