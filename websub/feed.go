package websub

import (
	"bytes"
	"encoding/xml"
	"io"
	"net/url"
	"strings"
	"unicode/utf16"
)

const (
	maxDepth = 256 // nesting depth of elements in a feed; deeper documents are rejected

	nsRS  = "http://www.openarchives.org/rs/terms/"
	nsXML = "http://www.w3.org/XML/1998/namespace"
)

// feedLinks returns the links of an XML feed; ok is false if text is not one.
// The root determines where they are: in Atom and ResourceSync documents they
// are its children, in RSS and RDF those of channel (WS-D-13).
func feedLinks(text []byte, base *url.URL) (l links, ok bool) {
	d := xml.NewDecoder(bytes.NewReader(inUTF8(text)))
	d.Strict = false
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil } // see inUTF8
	f := &feed{links: &l}
	bases := []*url.URL{base} // of the open elements
	for {
		t, err := d.Token()
		if err != nil {
			return l, f.known // links before the error are valid
		}
		switch t := t.(type) {
		case xml.StartElement:
			here := xmlBase(bases[len(bases)-1], t)
			if !f.start(t, len(bases)-1, here) || len(bases) > maxDepth {
				return l, f.known
			}
			bases = append(bases, here)
		case xml.EndElement:
			if len(bases) > 1 {
				bases = bases[:len(bases)-1]
			}
			if len(bases) == 2 {
				f.inside = false
			}
		}
	}
}

// A feed is the state of parsing one.
type feed struct {
	links   *links
	known   bool // the root is that of a feed
	channel bool // the links are children of channel
	inside  bool // a channel is open
}

// start handles an element at that depth; 0 is the root. It reports whether to
// continue.
func (f *feed) start(t xml.StartElement, depth int, base *url.URL) bool {
	switch depth {
	case 0:
		switch t.Name.Local {
		case "feed", "urlset", "sitemapindex":
			f.known = true
		case "rss", "RDF":
			f.known, f.channel = true, true
		}
		return f.known
	case 1:
		f.inside = f.channel && t.Name.Local == "channel"
		if f.channel {
			return true
		}
	case 2:
		if !f.inside {
			return true
		}
	default:
		return true
	}
	var rel, href string
	for _, a := range t.Attr {
		switch {
		case a.Name.Space != "":
		case a.Name.Local == "rel":
			rel = a.Value
		case a.Name.Local == "href":
			href = a.Value
		}
	}
	if t.Name.Local == "link" || t.Name.Local == "ln" && t.Name.Space == nsRS {
		f.links.add(base, rel, href)
	}
	return true
}

// xmlBase returns the base URL of addresses in the element.
func xmlBase(base *url.URL, t xml.StartElement) *url.URL {
	for _, a := range t.Attr {
		if a.Name.Local == "base" && (a.Name.Space == nsXML || a.Name.Space == "xml") {
			if u, err := Resolve(base, strings.TrimSpace(a.Value)); err == nil {
				return u
			}
		}
	}
	return base
}

// inUTF8 returns text without a byte order mark: UTF-16 (as shown by the mark)
// as UTF-8, and of other encodings the ASCII characters, since addresses are
// ASCII.
func inUTF8(text []byte) []byte {
	if len(text) < 2 || text[0]^text[1] != 0xfe^0xff || text[0] != 0xfe && text[0] != 0xff {
		return bytes.ToValidUTF8(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), []byte("?"))
	}
	big := text[0] == 0xfe
	units := make([]uint16, 0, len(text)/2)
	for i := 2; i+1 < len(text); i += 2 {
		high, low := text[i], text[i+1]
		if !big {
			high, low = low, high
		}
		units = append(units, uint16(high)<<8|uint16(low))
	}
	return []byte(string(utf16.Decode(units)))
}
