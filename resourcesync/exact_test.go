package resourcesync_test

import (
	"io"
	"strings"
	"testing"

	"lockstep/resourcesync"
)

// TestExact: an exact Reader also reports what every reader understands, and
// reads the same entries.
func TestExact(t *testing.T) {
	t.Parallel()
	const open = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">` +
		`<rs:ln rel="up" href="https://x.example/c.xml"/><rs:md capability="resourcelist" at="2024-05-01T02:00:00Z"/>`
	const decl = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"
	entry := func(text string) string { return decl + open + "\n" + text + "</urlset>" }
	md5 := "d41d8cd98f00b204e9800998ecf8427e"
	tests := []struct{ name, doc, rules string }{
		{"nothing", entry("<url><loc>https://x.example/a</loc></url>"), ""},
		{"no declaration", open + "</urlset>", "RS-XML-01"},
		{"another encoding", `<?xml version="1.0" encoding="ISO-8859-1"?>` + open + "</urlset>", "RS-XML-01"},
		{"a schema", decl + strings.Replace(open, "<urlset", `<urlset xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="a b"`, 1) + "</urlset>", "RS-XML-12"},
		{"attributes of url", entry(`<url id="1"><loc>https://x.example/a</loc></url>`), "RS-XML-08"},
		{"unknown attributes", entry(`<url><loc>https://x.example/a</loc><rs:md size="1"/><rs:ln rel="via" href="https://x.example/b" to="c"/></url>`), "RS-XML-07 RS-XML-07"},
		{"an offset", entry(`<url><loc>https://x.example/a</loc><lastmod>2024-05-01T02:00:00+02:00</lastmod></url>`), "RS-DT-01"},
		{"a date", entry(`<url><loc>https://x.example/a</loc><lastmod>2024-05-01</lastmod></url>`), "RS-DT-01"},
		{"a hash in upper case", entry(`<url><loc>https://x.example/a</loc><rs:md hash="md5:` + strings.ToUpper(md5) + `"/></url>`), "RS-HASH-02"},
		{"an algorithm in upper case", entry(`<url><loc>https://x.example/a</loc><rs:md hash="MD5:` + md5 + `"/></url>`), "RS-HASH-02"},
		{"an unknown algorithm", entry(`<url><loc>https://x.example/a</loc><rs:md hash="crc:00"/></url>`), "RS-HASH-02"},
		{"an empty hash", entry(`<url><loc>https://x.example/a</loc><rs:md hash=""/></url>`), "RS-HASH-01"},
		{"white space around a loc", entry("<url><loc>\nhttps://x.example/a\n</loc></url>"), "RS-XML-09"},
		{"a bad escape", entry("<url><loc>https://x.example/%zz</loc></url>"), "RS-XML-09"},
		{"a bad target", entry(`<url><loc>https://x.example/a</loc><rs:ln rel="via" href="https://x.example/%zz"/></url>`), "RS-LN-01"},
		{"a bad relation", entry(`<url><loc>https://x.example/a</loc><rs:ln rel="a_b" href="https://x.example/b"/></url>`), "RS-LN-03"},
		{"a bad coding", entry(`<url><loc>https://x.example/a</loc><rs:md encoding="gzip deflate"/></url>`), "RS-ENC-01"},
		{"an empty lastmod", entry(`<url><loc>https://x.example/a</loc><lastmod/></url>`), "RS-DT-02"},
		{"an empty changefreq", entry(`<url><loc>https://x.example/a</loc><changefreq/></url>`), "RS-XML-14"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var rules []string
			read := func(exact bool) resourcesync.Entry {
				rules = nil
				r := resourcesync.NewReader(strings.NewReader(tt.doc), resourcesync.ReaderOptions{Exact: exact,
					OnWarning: func(w resourcesync.Warning) { rules = append(rules, w.Rule) }})
				var e resourcesync.Entry
				if err := r.Read(&e); err != nil && err != io.EOF {
					t.Fatal(err)
				}
				return e
			}
			plain := read(false)
			if want := map[string]int{"a bad escape": 1}[tt.name]; len(rules) != want { // that loc is unusable
				t.Errorf("without Exact: %v", rules)
			}
			exact := read(true)
			if got := strings.Join(rules, " "); got != tt.rules {
				t.Errorf("rules %q, want %q", got, tt.rules)
			}
			if plain.Loc != exact.Loc || plain.Hashes.String() != exact.Hashes.String() || plain.Lastmod != exact.Lastmod || len(plain.Links) != len(exact.Links) {
				t.Errorf("read %+v, and %+v", plain, exact)
			}
		})
	}
}

// TestPosition: an entry ends where Position says, whatever other methods were
// called in between.
func TestPosition(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">` + "\n")
	for i := range 20_000 { // beyond the window
		b.WriteString("<url><loc>https://x.example/a</loc></url>" + strings.Repeat("\n", 1+i%2))
	}
	b.WriteString("</urlset>")
	r := resourcesync.NewReader(strings.NewReader(b.String()), resourcesync.ReaderOptions{})
	want := 2
	for i := range 20_000 {
		var e resourcesync.Entry
		if err := r.Read(&e); err != nil {
			t.Fatal(err)
		}
		if line, column := r.Position(); i%7 == 0 && (line != want || column != 42) {
			t.Fatalf("entry %d ends at %d:%d, want %d:42", i, line, column, want)
		}
		want += 1 + i%2
	}
}
