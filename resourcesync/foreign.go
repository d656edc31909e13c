package resourcesync

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unique"

	"lockstep/internal/xmlscan"
	"lockstep/resourcesync/internal/markup"
)

// MaxForeign is how many bytes of attributes and elements of foreign namespaces the
// Reader keeps of one entry, with those of its links: what one entry can occupy in
// memory and in every store that it passes. It drops what exceeds this, attribute by
// attribute and element by element, with one warning for the document.
const MaxForeign = 16 << 10

var errForeign = errors.New("invalid foreign markup")

// A Foreign is what a community adds to an entry or link, in namespaces of its own
// (RS-XML-07): attributes of its rs:md or rs:ln and, in an entry, elements. The zero
// value is nothing. Values are comparable; equal ones share memory.
//
// As text, which is also its form in JSON, it is an XML element <foreign> with these
// attributes and elements and the declarations of all namespaces that they use, which
// package encoding/xml can decode. Comments and processing instructions are not kept.
type Foreign struct{ text unique.Handle[string] }

// ParseForeign returns what [Foreign.String] returned; text need not have exactly that
// form. It is an error if text is longer than MaxForeign, has attributes without a
// prefix, has elements of no namespace in it, or elements of Sitemaps or ResourceSync
// anywhere.
func ParseForeign(text string) (Foreign, error) {
	if text == "" {
		return Foreign{}, nil
	}
	s := xmlscan.New(strings.NewReader(text), xmlscan.Options{Namespaces: namespaces, Expected: len(text)})
	var c markup.Collector
	c.Reset(MaxForeign)
	if err := parseForeign(&s, &c); err != nil {
		return Foreign{}, fmt.Errorf("%w: %w", errForeign, err)
	}
	return foreignOf(&c), nil
}

func parseForeign(s *xmlscan.Scanner, c *markup.Collector) error {
	m, err := s.Next()
	switch {
	case err != nil:
		return err
	case m != xmlscan.Start || s.Space != xmlscan.None || string(s.Local) != markup.Root:
		return errors.New("its root element is not <foreign>")
	}
	for i := range s.Attrs {
		a := &s.Attrs[i]
		if !isForeign(a.Space) && a.Space != xmlscan.XML {
			return fmt.Errorf("attribute %s is not in a foreign namespace", xmlscan.Clip(string(a.Local)))
		}
		c.Attribute(s, a)
	}
	for {
		m, text, err := s.NextText()
		switch {
		case err != nil:
			return err
		case len(xmlscan.Trim(text)) > 0:
			return errors.New("there is text outside its elements")
		}
		if m == xmlscan.End {
			break
		}
		if !isForeign(s.Space) {
			return fmt.Errorf("element %s is not in a foreign namespace", xmlscan.Clip(string(s.Local)))
		}
		ours := false
		if err := c.Element(s, func() bool {
			ours = ours || isOurs(s.Space)
			return !ours
		}); err != nil {
			return err
		}
		if ours {
			return errors.New("there is an element of Sitemaps or ResourceSync in it")
		}
	}
	if c.Dropped {
		return fmt.Errorf("%w: more than %d bytes", ErrLimit, MaxForeign)
	}
	if _, err := s.Next(); err != nil && err != io.EOF {
		return err
	}
	return nil
}

// isOurs reports whether Sitemaps or ResourceSync define the namespace. Elements in it
// within others would look like misplaced parts of the document.
func isOurs(space xmlscan.Space) bool { return space >= spaceSitemap && space < spaceXHTML }

// isForeign reports whether neither Sitemaps nor ResourceSync define the namespace.
func isForeign(space xmlscan.Space) bool { return space == xmlscan.Other || space == spaceXHTML }

func foreignOf(c *markup.Collector) Foreign {
	if c.Len() == 0 {
		return Foreign{}
	}
	return Foreign{unique.Make(c.Text())}
}

// IsZero reports whether f is nothing.
func (f Foreign) IsZero() bool { return f == Foreign{} }

// String returns f as text, or "" if it is nothing. The same content in the same order
// and with the same prefixes always has the same text.
func (f Foreign) String() string {
	if f.IsZero() {
		return ""
	}
	return f.text.Value()
}

// Equal reports whether f and o are equal, as == does.
func (f Foreign) Equal(o Foreign) bool { return f == o }

// HasElements reports whether f has elements; those of a link must not.
func (f Foreign) HasElements() bool { return markup.Elements(f.String()) != "" }

// MarshalText implements [encoding.TextMarshaler].
func (f Foreign) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler] with [ParseForeign].
func (f *Foreign) UnmarshalText(text []byte) (err error) {
	*f, err = ParseForeign(string(text))
	return err
}

// foreignAttributes keeps the attributes of foreign namespaces of the current tag.
func foreignAttributes(r *Reader, c *markup.Collector) {
	for i := range r.s.Attrs {
		if a := &r.s.Attrs[i]; a.Prefix != nil && (isForeign(a.Space) || a.Space == xmlscan.XML) {
			c.Attribute(&r.s, a)
		}
	}
	warnDropped(r, c)
}

// foreignLink returns those of the current rs:ln.
func foreignLink(r *Reader) Foreign {
	c := &r.linkForeign
	c.Reset(r.foreign.Most - r.foreign.Len())
	foreignAttributes(r, c)
	r.foreign.Most -= c.Len()
	return foreignOf(c)
}

// foreignElement reads a child of an entry that is in neither namespace. It is kept
// unless elements of these are in it.
func foreignElement(r *Reader) error {
	if !isForeign(r.s.Space) {
		return r.skip()
	}
	err := r.foreign.Element(&r.s, func() bool { return allowedInside(r) })
	warnDropped(r, &r.foreign)
	return err
}

// warnDropped warns, once, that markup was dropped.
func warnDropped(r *Reader, c *markup.Collector) {
	if c.Dropped && !r.dropped {
		r.dropped = true
		r.note("RS-XML-07", "an entry with more than 16384 bytes of attributes and elements of other namespaces; those that exceed this are ignored, also in further entries")
	}
}
