package resourcesync_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/resourcesync"
)

const (
	sitemapNS = `xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"`
	rsNS      = `xmlns:rs="http://www.openarchives.org/rs/terms/"`
	changeMD  = `<rs:md capability="changelist" from="2024-05-01T00:00:00Z" until="2024-05-02T00:00:00Z"/>`
)

func urlset(head, body string) string {
	return `<urlset ` + sitemapNS + ` ` + rsNS + `>` + head + body + `</urlset>`
}

// understood reads a document and returns its content and the rules it breaks.
func understood(t *testing.T, text string) (h resourcesync.Header, entries []resourcesync.Entry, broken []string) {
	t.Helper()
	r := resourcesync.NewReader(strings.NewReader(text), resourcesync.ReaderOptions{
		Base:      "http://example.org/document.xml",
		OnWarning: func(w resourcesync.Warning) { broken = append(broken, w.Rule) },
	})
	for {
		var e resourcesync.Entry
		err := r.Read(&e)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("Read: %v\n%s", err, text)
		}
		entries = append(entries, e)
	}
	h, err := r.Header()
	if err != nil {
		t.Fatal(err)
	}
	return h, entries, broken
}

// TestReaderRequirements reads one document for each requirement on how a
// Destination interprets documents.
func TestReaderRequirements(t *testing.T) {
	t.Parallel()
	entry := func(inner string) string { return `<url><loc>http://example.org/a</loc>` + inner + `</url>` }
	tests := []struct {
		ids  string
		text string
		ok   func(h resourcesync.Header, es []resourcesync.Entry, broken []string) bool
	}{
		{"RS-GEN-02", strings.Replace(urlset(upLink+listMD, entry(`<rs:md length="7"/>`)), "http://www.openarchives.org/rs/terms/", "http://www.openarchives.org/rs/", 1),
			func(h resourcesync.Header, es []resourcesync.Entry, _ []string) bool {
				return h.Capability == resourcesync.ResourceList && len(es) == 1 && es[0].Length == 7
			}},
		{"RS-XML-11, RS-AMB-15", urlset(upLink+listMD, ""),
			func(_ resourcesync.Header, es []resourcesync.Entry, broken []string) bool {
				return len(es) == 0 && len(broken) == 0
			}},
		{"RS-XML-15", urlset(upLink+listMD, entry(`<priority>0.9</priority>`)+`<url><loc>http://example.org/b</loc><priority>nonsense</priority></url>`),
			func(_ resourcesync.Header, es []resourcesync.Entry, _ []string) bool {
				return len(es) == 2 && es[0].Loc == "http://example.org/a" && es[1].Loc == "http://example.org/b"
			}},
		{"RS-EM-05", urlset(upLink+changeMD, entry(`<lastmod>1999-01-01T00:00:00Z</lastmod><rs:md change="updated" datetime="2024-05-01T03:00:00Z"/>`)),
			func(_ resourcesync.Header, es []resourcesync.Entry, broken []string) bool {
				return es[0].EventTime() == date("2024-05-01T03:00:00Z") && es[0].Lastmod == date("1999-01-01T00:00:00Z") && len(broken) == 0
			}},
		{"RS-MD-02, RS-MD-03", urlset(upLink+`<rs:md capability="resourcelist" at="2024-05-01T02:00:00Z" completed="2024-05-01T02:10:00Z"/>`, ""),
			func(h resourcesync.Header, _ []resourcesync.Entry, _ []string) bool {
				return h.At == date("2024-05-01T02:00:00Z") && h.Completed == date("2024-05-01T02:10:00Z")
			}},
		{"RS-MD-06, RS-MD-07", urlset(upLink+changeMD, ""),
			func(h resourcesync.Header, _ []resourcesync.Entry, _ []string) bool {
				return h.From == date("2024-05-01T00:00:00Z") && h.Until == date("2024-05-02T00:00:00Z") && !h.Open()
			}},
		{"RS-AMB-05", urlset(upLink+changeMD, entry(`<rs:md change="created" datetime="2024-05-01T00:00:00Z"/>`)+
			`<url><loc>http://example.org/b</loc><rs:md change="created" datetime="2024-05-02T00:00:00Z"/></url>`),
			func(_ resourcesync.Header, es []resourcesync.Entry, broken []string) bool {
				return len(es) == 2 && len(broken) == 0
			}},
		{"RS-AMB-12", urlset(upLink+changeMD, entry(`<rs:md change="updated" datetime="2024-05-01T03:00:00Z"/>`+
			`<rs:ln rel="http://www.openarchives.org/rs/terms/patch" href="http://example.org/p" type="application/json-patch"/>`)),
			func(_ resourcesync.Header, es []resourcesync.Entry, _ []string) bool {
				return len(es[0].Links) == 1 && es[0].Links[0].Href == "http://example.org/p"
			}},
		{"RS-AMB-23", urlset(upLink+listMD, `<url><loc> HTTP://Example.ORG:80/%7ea/./b?x=1&amp;y=%41 </loc></url>`),
			func(_ resourcesync.Header, es []resourcesync.Entry, _ []string) bool {
				return es[0].Loc == "HTTP://Example.ORG:80/%7ea/./b?x=1&y=%41"
			}},
		{"RS-LN-06", urlset(upLink+listMD, entry(`<lastmod>2024-01-01T00:00:00Z</lastmod><rs:ln rel="describedby" href="http://example.org/about" modified="2024-04-01T00:00:00Z"/>`)),
			func(_ resourcesync.Header, es []resourcesync.Entry, _ []string) bool {
				return es[0].Links[0].Modified == date("2024-04-01T00:00:00Z") && es[0].Lastmod == date("2024-01-01T00:00:00Z")
			}},
		{"RS-REL-01, RS-REL-60", urlset(upLink+listMD, entry(`<rs:ln rel="collection" href="http://example.org/c1"/><rs:ln rel="collection" href="http://example.org/c2"/>`)),
			func(_ resourcesync.Header, es []resourcesync.Entry, _ []string) bool {
				return es[0].Loc == "http://example.org/a" && len(es[0].Links) == 2 && es[0].Links[1].Href == "http://example.org/c2"
			}},
		{"RS-VER-17", urlset(upLink+listMD, entry(`<rs:ln rel="via" href="http://one.example/a"/><rs:ln rel="via" href="http://two.example/a"/>`)),
			func(_ resourcesync.Header, es []resourcesync.Entry, _ []string) bool {
				return len(es[0].Links) == 2 && es[0].Links[0].Href == "http://one.example/a" && es[0].Links[1].Href == "http://two.example/a"
			}},
		{"RS-SD-11", urlset(`<rs:md capability="resourcesync"/>`, `<url><loc>http://example.org/cl.xml</loc><rs:md capability="capabilitylist"/></url>`),
			func(h resourcesync.Header, es []resourcesync.Entry, _ []string) bool {
				return h.Capability == resourcesync.Description && len(es) == 1
			}},
		{"RS-VER-19", urlset(`<rs:md capability="resourcelist" modified="2013-01-02T00:00:00Z"/>`, entry("")),
			func(h resourcesync.Header, es []resourcesync.Entry, _ []string) bool {
				return h.Dialect != "" && h.Approximate && h.At == date("2013-01-02T00:00:00Z") && len(es) == 1
			}},
	}
	for _, tt := range tests {
		t.Run(tt.ids, func(t *testing.T) {
			t.Parallel()
			h, es, broken := understood(t, tt.text)
			if !tt.ok(h, es, broken) {
				t.Errorf("%s\nheader %+v\nentries %+v\nwarnings %v", tt.text, h, es, broken)
			}
		})
	}
}

// A document beyond the limits of the standard is read completely, with a
// warning (RS-IDX-03), also if it is a gzip file whatever its name (RS-IDX-08).
func TestReaderBeyondLimits(t *testing.T) {
	t.Parallel()
	n := resourcesync.MaxEntries + 2
	text := urlset(upLink+listMD, strings.Repeat("<url><loc>http://example.org/a</loc></url>", n))
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{text, zipped.String()} {
		_, es, broken := understood(t, text)
		if len(es) != n || !slices.Contains(broken, "RS-IDX-01") {
			t.Errorf("%d entries, warnings %v; want %d and RS-IDX-01", len(es), broken, n)
		}
	}
}

// Times are truncated when they are written, never rounded up: a document must
// not claim to cover an instant that it does not (RS-DT-06).
func TestWriterTruncatesTimes(t *testing.T) {
	t.Parallel()
	instant := time.Date(2024, 5, 1, 23, 59, 59, 999_999_999, time.UTC)
	got := resourcesync.NewDatetime(instant).String()
	written, err := time.Parse(time.RFC3339Nano, got)
	if err != nil || written.After(instant) || instant.Sub(written) >= time.Microsecond {
		t.Errorf("%v is written as %s, %v", instant, got, err)
	}
}

// A document has at most 50,000,000 bytes, which is below 50 MB by every
// interpretation of the limit (RS-AMB-16).
func TestWriterBytes(t *testing.T) {
	t.Parallel()
	if resourcesync.MaxBytes > 50_000_000 {
		t.Errorf("MaxBytes is %d", resourcesync.MaxBytes)
	}
	var w countingWriter
	d, err := resourcesync.NewWriter(&w, resourcesync.Header{Capability: resourcesync.ResourceList, At: day1, Links: []resourcesync.Link{up}})
	if err != nil {
		t.Fatal(err)
	}
	e := resourcesync.Entry{Loc: "http://example.org/" + strings.Repeat("x", 1900)}
	for {
		if err := d.Write(&e); err != nil {
			if !errors.Is(err, resourcesync.ErrTooLarge) {
				t.Fatal(err)
			}
			break
		}
	}
	if err := d.Close(); err != nil || w > 50_000_000 || w < 49_900_000 {
		t.Errorf("%d bytes, %v", w, err)
	}
}

type countingWriter int64

func (w *countingWriter) Write(p []byte) (int, error) {
	*w += countingWriter(len(p))
	return len(p), nil
}
