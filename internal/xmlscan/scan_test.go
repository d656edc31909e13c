package xmlscan_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"maps"
	"strings"
	"testing"
	"testing/iotest"

	"lockstep/internal/xmlscan"
)

const (
	spaceA xmlscan.Space = iota + 1
	spaceB
)

func scanner(doc string) *xmlscan.Scanner {
	s := xmlscan.New(strings.NewReader(doc), xmlscan.Options{Namespaces: []string{"u:a", "u:b"}})
	return &s
}

// seek advances to the start tag of that name.
func seek(t *testing.T, s *xmlscan.Scanner, name string) {
	t.Helper()
	for {
		m, err := s.Next()
		if err != nil || m == xmlscan.EOF {
			t.Fatalf("no <%s>: mark %d, error %v", name, m, err)
		}
		if m == xmlscan.Start && string(s.Local) == name {
			return
		}
	}
}

// rest advances to the end of the document.
func rest(t *testing.T, s *xmlscan.Scanner) {
	t.Helper()
	for {
		m, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		if m == xmlscan.EOF {
			return
		}
	}
}

func TestSpaces(t *testing.T) {
	t.Parallel()
	s := scanner(`<r xmlns:p="u:a" xmlns:o="u:other"><p:x/><x xmlns="u:b" p:at="1" o:at="2" xml:lang="en" at="3"/><o:x/><x/></r>`)
	want := []xmlscan.Space{xmlscan.None, spaceA, spaceB, xmlscan.Other, xmlscan.None}
	for i, space := range want {
		for {
			m, err := s.Next()
			if err != nil {
				t.Fatal(err)
			}
			if m == xmlscan.Start {
				break
			}
		}
		if s.Space != space {
			t.Errorf("element %d: space %d, want %d", i, s.Space, space)
		}
		if i != 2 {
			continue
		}
		var spaces []xmlscan.Space
		for _, a := range s.Attrs {
			spaces = append(spaces, a.Space)
		}
		if len(spaces) != 4 || spaces[0] != spaceA || spaces[1] != xmlscan.Other || spaces[2] != xmlscan.XML || spaces[3] != xmlscan.None {
			t.Errorf("attributes in %v", spaces)
		}
		if string(s.Attrs[1].URI) != "u:other" {
			t.Errorf("URI %q", s.Attrs[1].URI)
		}
		if v, ok := s.Attr("at"); !ok || string(v) != "3" {
			t.Errorf("Attr = %q, %v, want the one without a prefix", v, ok)
		}
		if _, ok := s.Attr("lang"); ok {
			t.Error("Attr found one with a prefix")
		}
	}
	rest(t, s)
}

func TestTexts(t *testing.T) {
	t.Parallel()
	const doc = "<r><x> a <!-- c -->&amp;\r\n<y>b<z>c</z></y><![CDATA[<d>]]> </x><x/></r>"
	s := scanner(doc)
	seek(t, s, "x")
	text, raw, err := s.Text()
	if err != nil || string(text) != "a &\n<d>" || string(raw) != " a &\n<d> " {
		t.Errorf("Text = %q, %q, %v", text, raw, err)
	}
	seek(t, s, "x")
	if text, _, err = s.Text(); err != nil || len(text) != 0 {
		t.Errorf("Text of an empty element = %q, %v", text, err)
	}
	rest(t, s)

	s = scanner(doc)
	seek(t, s, "x")
	if text, err = s.AllText(); err != nil || string(text) != "a &\nbc<d>" {
		t.Errorf("AllText = %q, %v", text, err)
	}
	rest(t, s)

	s = scanner(doc)
	seek(t, s, "x")
	if err := s.Skip(); err != nil || s.Depth() != 1 {
		t.Errorf("Skip: %v, depth %d", err, s.Depth())
	}
	rest(t, s)
}

func TestBlank(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]bool{
		"": true, " \t\r\n": true, " <!-- c --> <?p i?> ": true, "<![CDATA[ ]]>": true, "<![CDATA[]]>": true, "&#32;": false,
		"a": false, " a ": false, "<b/>": false, "<![CDATA[ a]]>": false, "<!-- --> .": false, " <b> </b>": false,
	} {
		s := scanner("<r> text <x>" + content + "</x> text <y/></r>")
		seek(t, s, "x")
		if blank, err := s.Blank(); err != nil || blank != want {
			t.Errorf("Blank of %q = %v, %v", content, blank, err)
		}
		seek(t, s, "y")
	}
}

func TestInScope(t *testing.T) {
	t.Parallel()
	s := scanner(`<r xmlns="u:1" xmlns:p="u:a" xmlns:q="u:2&amp;"><x xmlns="" xmlns:p="u:3" xmlns:xml="http://www.w3.org/XML/1998/namespace"/></r>`)
	seek(t, s, "r")
	want := map[string]string{"": "u:1", "p": "u:a", "q": "u:2&"}
	if got := maps.Collect(s.InScope()); !maps.Equal(got, want) {
		t.Errorf("InScope = %v, want %v", got, want)
	}
	seek(t, s, "x")
	want = map[string]string{"": "", "p": "u:3", "q": "u:2&", "xml": "http://www.w3.org/XML/1998/namespace"}
	if got := maps.Collect(s.InScope()); !maps.Equal(got, want) {
		t.Errorf("InScope = %v, want %v", got, want)
	}
	rest(t, s)
}

// Errors follow the Options, whatever the underlying reader and the document
// are.
func TestOptions(t *testing.T) {
	t.Parallel()
	mine, html := errors.New("no such document"), errors.New("a page")
	var zipped bytes.Buffer
	zw := gzip.NewWriter(&zipped)
	if _, err := io.WriteString(zw, "<r/>"); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	var twice bytes.Buffer
	zw = gzip.NewWriter(&twice)
	if _, err := zw.Write(zipped.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("n", 400_000)
	deep := strings.Repeat("<a>", 12) + strings.Repeat("</a>", 12)
	tests := map[string]struct {
		doc  string
		o    xmlscan.Options
		want error
	}{
		"plain":             {"<r/>", xmlscan.Options{}, nil},
		"gzip":              {zipped.String(), xmlscan.Options{}, nil},
		"gzip twice":        {twice.String(), xmlscan.Options{NotDocument: mine}, mine},
		"no XML":            {"{}", xmlscan.Options{}, xmlscan.ErrNotDocument},
		"no XML, own error": {"{}", xmlscan.Options{NotDocument: mine}, mine},
		"nothing":           {"", xmlscan.Options{NotDocument: mine}, mine},
		"a page":            {"<html><br></html>", xmlscan.Options{}, xmlscan.ErrHTML},
		"a page, own error": {"<!doctype HTML>", xmlscan.Options{HTML: html}, html},
		"deep":              {deep, xmlscan.Options{}, nil},
		"too deep":          {deep, xmlscan.Options{MaxDepth: 11}, xmlscan.ErrLimit},
		"deeper":            {strings.Repeat("<a>", 70) + strings.Repeat("</a>", 70), xmlscan.Options{MaxDepth: 70}, nil},
		"long text":         {"<a>" + strings.Repeat("x", 2<<20) + "</a>", xmlscan.Options{MaxToken: 3 << 20}, nil},
		"too long a text":   {"<a>" + strings.Repeat("x", 2<<20) + "</a>", xmlscan.Options{}, xmlscan.ErrLimit},
		"long names":        {"<r>" + strings.Repeat("<"+long+"/>", 3) + "</r>", xmlscan.Options{}, nil},
		"names too long":    {strings.Repeat("<"+long+">", 3) + strings.Repeat("</"+long+">", 3), xmlscan.Options{}, xmlscan.ErrLimit},
		"long spaces":       {"<r>" + strings.Repeat("<a xmlns='"+long+"'/>", 3) + "</r>", xmlscan.Options{}, nil},
		"spaces too long":   {strings.Repeat("<a xmlns='"+long+"'>", 3) + strings.Repeat("</a>", 3), xmlscan.Options{}, xmlscan.ErrLimit},
		"too many bytes":    {"<a>" + strings.Repeat("<b/>", 100) + "</a>", xmlscan.Options{MaxBytes: 300}, xmlscan.ErrLimit},
		"cut off":           {"<a><b>", xmlscan.Options{}, io.ErrUnexpectedEOF},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, r := range []io.Reader{strings.NewReader(tt.doc), iotest.OneByteReader(strings.NewReader(tt.doc))} {
				s := xmlscan.New(r, tt.o)
				err := drain(&s)
				var syn *xmlscan.SyntaxError
				if !errors.Is(err, tt.want) || err != nil && !errors.As(err, &syn) {
					t.Errorf("error %v, want %v as a SyntaxError", err, tt.want)
				}
			}
		})
	}
}

// An error of the underlying reader is returned unchanged.
func TestReaderError(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset")
	s := xmlscan.New(io.MultiReader(strings.NewReader("<a><b/>"), iotest.ErrReader(broken)), xmlscan.Options{})
	var syn *xmlscan.SyntaxError
	if err := drain(&s); !errors.Is(err, broken) || errors.As(err, &syn) {
		t.Errorf("error %v, want that of the reader", err)
	}
}

func drain(s *xmlscan.Scanner) error {
	for {
		if m, err := s.Next(); err != nil || m == xmlscan.EOF {
			return err
		}
	}
}

func TestEscaped(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "plain", "a<b>&\"c'd", "\t\r\n lines ", "grüße, 世界, 𝄞", "more than eight plain bytes, then & and more than eight"} {
		b, ok := xmlscan.AppendEscaped([]byte(`<a b="`), s)
		b = append(b, `">`...)
		b, _ = xmlscan.AppendEscaped(b, s)
		sc := scanner(string(b) + "</a>")
		seek(t, sc, "a")
		v, _ := sc.Attr("b")
		if string(v) != s {
			t.Errorf("%q was read back as %q from an attribute", s, v)
		}
		if _, raw, err := sc.Text(); !ok || err != nil || string(raw) != s {
			t.Errorf("%q was read back as %q from a text: %v", s, raw, err)
		}
	}
	for _, s := range []string{"\x00", "a\x1fb", "\xff", "plain plain \xed\xa0\x80", "￾", "￿"} {
		if b, ok := xmlscan.AppendEscaped(nil, s); ok {
			t.Errorf("%q was written as %q", s, b)
		}
	}
}

func TestClip(t *testing.T) {
	t.Parallel()
	if got := xmlscan.Clip("a\x1b[31mb\n"); got != "a�[31mb�" {
		t.Errorf("Clip = %q", got)
	}
	if got := xmlscan.Clip(strings.Repeat("ä", 100)); got != strings.Repeat("ä", 60)+"…" {
		t.Errorf("Clip = %q", got)
	}
}
