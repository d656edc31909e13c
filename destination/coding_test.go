package destination_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

func gzipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, text) // a Buffer takes all
	_ = z.Close()
	return b.String()
}

func deflated(text string) string {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = io.WriteString(z, text)
	_ = z.Close()
	return b.String()
}

// TestContentCodings: whether a body is stored decoded or as served, given its entry
// and its content coding (RS-HASH-07).
func TestContentCodings(t *testing.T) {
	t.Parallel()
	plain := strings.Repeat("content that can be compressed, ", 40)
	gz := gzipped(plain)
	gzgz := gzipped(gz)
	const brotli = "\x0b\x02\x80not really, but who would know\x03"
	for _, tt := range []struct {
		name     string
		path     string // default /x
		encoding string // of the entry
		hash     string // what it is of; "": none
		length   string // what it is of; "": none
		served   string // Content-Encoding
		body     string
		want     string // "": a failure
		gets     int    // default 1
		chunked  bool   // no Content-Length
	}{
		{name: "as it is", hash: plain, length: plain, body: plain, want: plain},
		{name: "identity", hash: plain, length: plain, served: "identity", body: plain, want: plain},
		{name: "stated and served", encoding: "gzip", hash: gz, length: gz, served: "gzip", body: gz, want: gz},
		{name: "stated otherwise, served", encoding: "GZip", hash: gz, length: gz, served: "x-gzip", body: gz, want: gz},
		{name: "stated twice and served", encoding: "gzip, gzip", hash: gzgz, length: gzgz, served: "gzip, gzip", body: gzgz, want: gzgz},
		{name: "stated, served as a file", encoding: "gzip", hash: gz, length: gz, body: gz, want: gz},
		{name: "stated, served plain", encoding: "gzip", hash: gz, length: gz, body: plain},
		{name: "stated, served plain and described so", encoding: "gzip", hash: plain, length: plain, body: plain, want: plain},
		{name: "stated and served, described plain", encoding: "gzip", hash: plain, length: plain, served: "gzip", body: gz, want: plain, gets: 2},
		{name: "stated and served, nothing else", encoding: "gzip", served: "gzip", body: gz, want: gz},
		{name: "stated, served plain, nothing else", encoding: "gzip", body: plain, want: plain},
		{name: "stated, coded once more", encoding: "gzip", hash: gz, length: gz, served: "gzip, gzip", body: gzgz, want: gz, gets: 2},
		{name: "br stated and served", encoding: "br", hash: brotli, length: brotli, served: "br", body: brotli, want: brotli},
		{name: "br stated, served plain", encoding: "br", hash: plain, length: plain, body: plain, want: plain},
		{name: "br stated, gzip served", encoding: "br", hash: plain, length: plain, served: "gzip", body: gz, want: plain, gets: 2},
		{name: "nonsense stated", encoding: "gzip&#13;&#10;X: y", hash: plain, length: plain, body: plain, want: plain},

		{name: "unasked", hash: plain, length: plain, served: "gzip", body: gz, want: plain, gets: 2},
		{name: "unasked, hash only", hash: plain, served: "gzip", body: gz, want: plain, gets: 2},
		{name: "unasked, length only", length: plain, served: "gzip", body: gz, want: plain},
		{name: "unasked, length only, chunked", length: plain, served: "gzip", body: gz, want: plain, gets: 2, chunked: true},
		{name: "unasked, nothing stated", served: "gzip", body: gz, want: plain},
		{name: "unasked, nothing stated, chunked", served: "gzip", body: gz, want: plain, chunked: true},
		{name: "unasked, of what is coded", hash: gz, length: gz, served: "gzip", body: gz, want: gz},
		{name: "unasked, of what is coded, length only", length: gz, served: "gzip", body: gz, want: gz},
		{name: "unasked, of what is coded, length only, chunked", length: gz, served: "gzip", body: gz, want: gz, chunked: true},
		{name: "unasked deflate", hash: plain, length: plain, served: "deflate", body: deflated(plain), want: plain, gets: 2},
		{name: "unasked twice", hash: plain, length: plain, served: "gzip, gzip", body: gzgz, want: plain, gets: 2},
		{name: "unasked often", hash: plain, length: plain, served: "gzip, gzip, gzip, gzip, gzip", body: gz, gets: 2},
		{name: "unasked br", hash: plain, length: plain, served: "br", body: brotli, gets: 2},
		{name: "unasked br, nothing stated", served: "br", body: brotli},
		{name: "unasked br, of what is coded", hash: brotli, length: brotli, served: "br", body: brotli, want: brotli},
		{name: "said to be coded, and is not", hash: plain, length: plain, served: "gzip", body: plain, want: plain},
		{name: "said to be coded, and is not, nothing stated", served: "gzip", body: plain},
		{name: "unasked, wrong", hash: plain, length: plain, served: "gzip", body: gzipped("something else"), gets: 4},
		{name: "unasked, empty", hash: "", length: "", served: "gzip", body: "", want: "-"},

		{name: "a file", path: "/x.gz", hash: gz, length: gz, body: gz, want: gz},
		{name: "a file, said to be coded", path: "/x.gz", hash: gz, length: gz, served: "gzip", body: gz, want: gz},
		{name: "a file, said to be coded, nothing stated", path: "/x.tar.gz", served: "x-gzip", body: gz, want: gz},
		{name: "a file, coded once more", path: "/x.gz", hash: gz, length: gz, served: "gzip", body: gzgz, want: gz, gets: 2},
		{name: "a file, coded once more, nothing stated", path: "/x.gz", served: "gzip", body: gzgz, want: gz},
		{name: "a file, coded once more, of both", path: "/x.gz", hash: gzgz, length: gzgz, served: "gzip", body: gzgz, want: gzgz},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, style{})
			path := "/x"
			if tt.path != "" {
				path = tt.path
			}
			md := ""
			if tt.hash != "" {
				md += fmt.Sprintf(` hash="sha-256:%x"`, sha256.Sum256([]byte(tt.hash)))
			}
			if tt.length != "" {
				md += fmt.Sprintf(` length="%d"`, len(tt.length))
			}
			if tt.encoding != "" {
				md += ` encoding="` + tt.encoding + `"`
			}
			s.replace("/rs/resourcelist.xml", doc("urlset", `<rs:md capability="resourcelist" at="2024-05-01T02:00:00Z"/>`,
				"<url><loc>"+s.url(path)+"</loc><rs:md"+md+"/></url>"))
			s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != path {
					return false
				}
				if got := r.Header.Get("X"); got != "" {
					t.Errorf("a header was made up: %q", got)
				}
				if tt.served != "" {
					w.Header().Set("Content-Encoding", tt.served)
				}
				if tt.chunked {
					w.(http.Flusher).Flush()
				}
				_, _ = io.WriteString(w, tt.body) // the client finds out
				return true
			})
			m := newMirror(t, s)
			r, err := m.sync()
			gets := max(tt.gets, 1)
			if tt.want == "" && gets == 1 && tt.hash != "" {
				gets = 2 // again, bypassing caches
			}
			got, here := m.files()[strings.TrimPrefix(path, "/")]
			if tt.want == "-" {
				tt.want = ""
				if !here {
					t.Error("no empty file")
				}
			} else if here != (tt.want != "") || (err == nil) != here {
				t.Fatalf("Sync: %v, kept: %v\n%+v", err, here, r)
			}
			if got != tt.want {
				t.Errorf("kept %.40q, want %.40q", got, tt.want)
			}
			if s.got(path) != gets {
				t.Errorf("%d requests, want %d", s.got(path), gets)
			}
		})
	}
}

// TestCodingBomb: a body that decompresses without limit is a failure; it does not
// fill the disk.
func TestCodingBomb(t *testing.T) {
	t.Parallel()
	bomb := gzipped(strings.Repeat("\x00", 80<<20))
	s := newSite(t, style{noHash: true, noLength: true})
	s.put("/x", "listed")
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/x" {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, bomb) // the client breaks off
			return true
		}
		return false
	})
	m := newMirror(t, s)
	r, err := m.sync()
	if err == nil || len(r.Failures) != 1 || !strings.Contains(r.Failures[0].Cause, "without measure") {
		t.Fatalf("%v\n%+v", err, r)
	}
}

// TestCodingOfNothing: a body of which nothing is left when its codings are undone, on and
// on, is a failure; it is not read to its end.
func TestCodingOfNothing(t *testing.T) {
	t.Parallel()
	nothing := strings.Repeat(gzipped(""), 200_000)
	for served, body := range map[string]string{"gzip": nothing, "gzip, gzip": gzipped(nothing)} {
		t.Run(served, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, style{noHash: true, noLength: true})
			s.put("/x", "listed")
			s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/x" {
					w.Header().Set("Content-Encoding", served)
					_, _ = io.WriteString(w, body) // the client breaks off
					return true
				}
				return false
			})
			m := newMirror(t, s)
			r, err := m.sync()
			if err == nil || len(r.Failures) != 1 || !strings.Contains(r.Failures[0].Cause, "contain nothing") {
				t.Fatalf("%v\n%+v", err, r)
			}
		})
	}
}
