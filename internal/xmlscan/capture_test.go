package xmlscan_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"lockstep/internal/xmlscan"
)

// A captured element equals that in the document, however the document is split
// into reads, and the Scanner continues after it.
func TestCapture(t *testing.T) {
	t.Parallel()
	for _, element := range []string{
		"<x/>", "<x></x>", "<x  a = '1' />", "<x a='&lt;&#10;'>\r\n<y><x>&amp;</x></y><!-- > --><![CDATA[</x>]]><?p </x>?></x >",
		"<x>" + strings.Repeat("<y>grüße</y>\n", 15_000) + "</x>",
	} {
		for name, r := range map[string]func(io.Reader) io.Reader{
			"whole": func(r io.Reader) io.Reader { return r }, "in halves": iotest.HalfReader, "byte by byte": iotest.OneByteReader,
		} {
			if len(element) > 10_000 && name == "byte by byte" {
				continue // the short ones suffice
			}
			doc := "<r> <a>" + strings.Repeat("<b/>", 3000) + element + "<z/></a></r>"
			s := xmlscan.New(r(strings.NewReader(doc)), xmlscan.Options{})
			seek(t, &s, "x")
			got, err := s.Capture([]byte("before"), 0)
			if err != nil || string(got) != "before"+element {
				t.Fatalf("%s: Capture = %.200q, %v", name, got, err)
			}
			seek(t, &s, "z")
			if s.Depth() != 3 {
				t.Errorf("depth %d behind it", s.Depth())
			}
			rest(t, &s)
		}
	}
}

// An element that is captured as a document has exactly the namespaces it
// needs.
func TestCaptureDocument(t *testing.T) {
	t.Parallel()
	const around = `<oai xmlns="u:oai" xmlns:p="u:a" xmlns:q="u:q&amp;&quot;" xmlns:xsi="u:xsi" xmlns:unused="u:unused"><metadata xmlns:q="u:q2">`
	tests := map[string]struct{ in, want string }{
		"one prefix":           {`<p:x><p:y/></p:x>`, `<p:x xmlns:p="u:a"><p:y/></p:x>`},
		"the default":          {`<x/>`, `<x xmlns="u:oai"/>`},
		"the default inside":   {`<p:x><y/></p:x>`, `<p:x xmlns="u:oai" xmlns:p="u:a"><y/></p:x>`},
		"its own default":      {`<x xmlns="u:1"><y/></x>`, `<x xmlns="u:1"><y/></x>`},
		"no default":           {`<x xmlns=""><y/></x>`, `<x xmlns=""><y/></x>`},
		"a default of a child": {`<p:x><y xmlns="u:1"><z/></y></p:x>`, `<p:x xmlns:p="u:a"><y xmlns="u:1"><z/></y></p:x>`},
		"a default behind it":  {`<p:x><y xmlns="u:1"/><z/></p:x>`, `<p:x xmlns="u:oai" xmlns:p="u:a"><y xmlns="u:1"/><z/></p:x>`},
		"the nearest":          {`<q:x/>`, `<q:x xmlns:q="u:q2"/>`},
		"its own":              {`<q:x xmlns:q="u:3"/>`, `<q:x xmlns:q="u:3"/>`},
		"an attribute":         {`<x xmlns="u:1" xsi:schemaLocation="a b"/>`, `<x xmlns:xsi="u:xsi" xmlns="u:1" xsi:schemaLocation="a b"/>`},
		"in a value":           {`<x xmlns="u:1" type="p:W3CDTF"/>`, `<x xmlns:p="u:a" xmlns="u:1" type="p:W3CDTF"/>`},
		"in a text":            {`<x xmlns="u:1">p:name</x>`, `<x xmlns:p="u:a" xmlns="u:1">p:name</x>`},
		"the end of a name":    {`<x xmlns="u:1">http://a</x>`, `<x xmlns="u:1">http://a</x>`},
		"several":              {`<xsi:x q:a=""/>`, `<xsi:x xmlns:q="u:q2" xmlns:xsi="u:xsi" q:a=""/>`},
	}
	s := scanner(`<r xmlns="u:1"><r xmlns=""><x/></r></r>`)
	seek(t, s, "x")
	if got, err := s.CaptureDocument(nil, 0); err != nil || string(got) != "<x/>" {
		t.Errorf("in no namespace: %s, %v", got, err)
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scanner(around + tt.in + "</metadata></oai>")
			seek(t, s, "metadata")
			if _, err := s.Next(); err != nil {
				t.Fatal(err)
			}
			got, err := s.CaptureDocument(nil, 0)
			if err != nil || string(got) != tt.want {
				t.Errorf("CaptureDocument =\n%s, want\n%s (%v)", got, tt.want, err)
			}
			rest(t, s)
			alone := scanner(string(got))
			rest(t, alone)
		})
	}
}

// The bytes do not depend on what else is declared around the element.
func TestCaptureStable(t *testing.T) {
	t.Parallel()
	const element = `<d:x>a http://b <d:y e:z="1"/></d:x>`
	var first string
	for _, around := range []string{
		`<r xmlns:d="u:d" xmlns:e="u:e">`, `<r xmlns:e="u:e" xmlns:d="u:d">`, `<r xmlns="u:any" xmlns:e="u:e" xmlns:d="u:d" xmlns:ttp="u:1">`,
		`<r xmlns:d="u:old" xmlns:e="u:e"><r xmlns:d="u:d">`,
	} {
		s := scanner(around + element)
		seek(t, s, "x")
		got, err := s.CaptureDocument(nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = string(got)
		}
		if string(got) != first {
			t.Errorf("below %s:\n%s, want\n%s", around, got, first)
		}
	}
}

// An endless element ends in an error, whatever it consists of.
func TestCaptureLimit(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"tags": "<y/>", "comments": "<!-- c -->", "texts": "text<y/>", "instructions": "<?p i?>", "one text": "x", "sections": "<![CDATA[ ]]>",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const limit = 100_000
			read := 0
			endless := readerFunc(func(p []byte) (int, error) {
				n := 0
				for n+len(body) <= len(p) {
					n += copy(p[n:], body)
				}
				read += n
				return n, nil
			})
			s := xmlscan.New(io.MultiReader(strings.NewReader("<r><x>"), endless), xmlscan.Options{})
			seek(t, &s, "x")
			if _, err := s.Capture(nil, limit); !errors.Is(err, xmlscan.ErrLimit) {
				t.Errorf("error %v, want ErrLimit", err)
			}
			if read > 4<<20 {
				t.Errorf("%d bytes were read for it", read)
			}
		})
	}
	s := scanner("<r><x>" + strings.Repeat("y", 93) + "</x></r>")
	seek(t, s, "x")
	if got, err := s.Capture(nil, 100); err != nil || len(got) != 100 {
		t.Errorf("an element of just the limit: %d bytes, %v", len(got), err)
	}
	s = scanner("<r><x>" + strings.Repeat("y", 94) + "</x></r>")
	seek(t, s, "x")
	if _, err := s.Capture(nil, 100); !errors.Is(err, xmlscan.ErrLimit) {
		t.Errorf("an element one byte too long: %v", err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestCaptureCutOff(t *testing.T) {
	t.Parallel()
	s := scanner("<r><x><y>")
	seek(t, s, "x")
	if _, err := s.CaptureDocument(nil, 0); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v", err)
	}
}
