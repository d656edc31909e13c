package xmlscan_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"lockstep/internal/xmlscan"
)

var seeds = []string{
	`<r/>`, `<?xml version="1.0" encoding="UTF-8"?><r xmlns="u:a"><x a="1" b='&lt;'/> text </r>`,
	"<r xmlns:p='u:a' xmlns:q='u:other'><p:x q:at='1\n2' xml:lang='en'>&amp;&#65;\r\n</p:x><x xmlns='u:b'><y/></x><x xmlns=''/></r>",
	`<!DOCTYPE r SYSTEM "r.dtd"><!-- c --><r><![CDATA[<x>]]><?p i?></r> `,
	`<a:r xmlns:a="u:a"><b xmlns="u:1" xmlns:c="u:2" c:d="e:f">a:b c:d<c:e/></b></a:r>`,
	`<r xmlns="u:1"><p:x xmlns:p="u:2"><y/></p:x></r>`, "<r><x>\u00e9</x></r>", "<r><x></r>", "<r>&unknown;</r>", "<r a='1' a='2'/>",
	"<html>", "{}", "", "\xef\xbb\xbf<r/>", "\xff\xfe<\x00r\x00/\x00>\x00", "\x1f\x8b",
}

// An event is a tag, or the text before one, in one line.
type event = string

// ours returns the events of a Scanner for a document. It omits text, of which
// a Scanner returns only requested parts.
func ours(r io.Reader) (events []event, err error) {
	s := xmlscan.New(r, xmlscan.Options{Namespaces: []string{"u:a", "u:b"}, MaxBytes: 4 << 20})
	for {
		m, err := s.Next()
		switch {
		case err != nil:
			return events, err
		case m == xmlscan.EOF:
			return events, nil
		case m == xmlscan.End:
			events = append(events, "end")
			continue
		}
		in := map[string]string{"": "", "xml": "http://www.w3.org/XML/1998/namespace"}
		for prefix, uri := range s.InScope() {
			in[prefix] = uri
		}
		var attrs []string
		for _, a := range s.Attrs {
			uri := ""
			if a.Prefix != nil {
				uri = in[string(a.Prefix)]
			}
			attrs = append(attrs, fmt.Sprintf("%q %q=%q", uri, a.Local, blanks(string(a.Value))))
		}
		slices.Sort(attrs)
		events = append(events, fmt.Sprintf("%d %q %s", min(s.Space, 3), s.Local, attrs))
	}
}

// theirs returns the events of encoding/xml.
func theirs(doc []byte) (events []event, err error) {
	d := xml.NewDecoder(bytes.NewReader(doc))
	for {
		tok, err := d.Token()
		if err == io.EOF {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		switch tok := tok.(type) {
		case xml.EndElement:
			events = append(events, "end")
		case xml.StartElement:
			var attrs []string
			for _, a := range tok.Attr {
				if a.Name.Space == "xmlns" || a.Name.Space == "" && a.Name.Local == "xmlns" {
					continue
				}
				attrs = append(attrs, fmt.Sprintf("%q %q=%q", a.Name.Space, a.Name.Local, blanks(a.Value)))
			}
			slices.Sort(attrs)
			space := 3
			switch tok.Name.Space {
			case "":
				space = 0
			case "u:a":
				space = 1
			case "u:b":
				space = 2
			}
			events = append(events, fmt.Sprintf("%d %q %s", space, tok.Name.Local, attrs))
		}
	}
}

// blanks replaces white space by blanks: encoding/xml does not do so in
// attributes.
func blanks(s string) string {
	return strings.NewReplacer("\t", " ", "\n", " ", "\r", " ").Replace(s)
}

// FuzzScanner: no input makes the Scanner panic, run forever or return an
// undocumented error; how the input is split into reads makes no difference;
// and if encoding/xml accepts the document, it returns the same tags.
func FuzzScanner(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		got, err := ours(bytes.NewReader(doc))
		var syn *xmlscan.SyntaxError
		if err != nil && (!errors.As(err, &syn) || syn.Err == nil || syn.Line < 1 || syn.Column < 1) {
			t.Fatalf("error of type %T: %v", err, err)
		}
		if len(doc) <= 4096 {
			slow, slowErr := ours(iotest.OneByteReader(bytes.NewReader(doc)))
			if !slices.Equal(got, slow) || (err == nil) != (slowErr == nil) || err != nil && err.Error() != slowErr.Error() {
				t.Fatalf("read whole: %q, %v\nbyte by byte: %q, %v", got, err, slow, slowErr)
			}
		}
		if err != nil {
			return
		}
		if want, theirErr := theirs(doc); theirErr == nil && !slices.Equal(got, want) && len(want) > 0 {
			t.Errorf("tags:\n%q, encoding/xml sees\n%q", got, want)
		}
	})
}

// FuzzCapture: every element captured as a document has the same tags, and is
// the same when it is captured again.
func FuzzCapture(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s), byte(1))
		f.Add([]byte(s), byte(2))
	}
	f.Fuzz(func(t *testing.T, doc []byte, nth byte) {
		all, err := ours(bytes.NewReader(doc))
		if err != nil {
			return
		}
		alone, at, ok := capture(t, doc, int(nth)%8)
		if !ok {
			return
		}
		var want []event
		for depth, rest := 0, all[at:]; ; rest = rest[1:] {
			want = append(want, rest[0])
			if rest[0] == "end" {
				depth--
			} else {
				depth++
			}
			if depth == 0 {
				break
			}
		}
		got, err := ours(bytes.NewReader(alone))
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("of %q alone as %q: tags\n%q, want\n%q (%v)", doc, alone, got, want, err)
		}
		again, _, ok := capture(t, alone, 0)
		if !ok || !bytes.Equal(again, alone) {
			t.Errorf("taken out again: %q, first %q", again, alone)
		}
	})
}

// capture captures the nth element of doc, and returns the number of the event
// at its start.
func capture(t *testing.T, doc []byte, nth int) (alone []byte, at int, ok bool) {
	t.Helper()
	s := xmlscan.New(bytes.NewReader(doc), xmlscan.Options{})
	for ; ; at++ {
		m, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		if m == xmlscan.EOF {
			return nil, 0, false
		}
		if m != xmlscan.Start {
			continue
		}
		if nth > 0 {
			nth--
			continue
		}
		if alone, err = s.CaptureDocument(nil, 0); err != nil {
			t.Fatal(err)
		}
		return alone, at, true
	}
}
