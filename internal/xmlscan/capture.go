package xmlscan

import (
	"bytes"
	"slices"
)

// A capture is the state of Capture while the window advances.
type capture struct {
	on   bool
	from int    // position in the window of the part that is not in kept yet
	kept []byte // what has left the window
	most int    // maximum length of kept
}

// Capture reads the current element up to its end and appends it to dst as
// written in the document, in UTF-8. It returns ErrLimit if the element has
// more than limit bytes; 0 means DefaultCapture. The result belongs to the
// caller.
func (s *Scanner) Capture(dst []byte, limit int) ([]byte, error) {
	out, _, err := s.capture(dst, limit)
	return out, err
}

// CaptureDocument is Capture for an element that becomes a document of its own:
// the namespace declarations around the element that it uses are added to it,
// in the order of their prefixes. Prefixes in its texts and values count as
// used if they look like one, as in values of xsi:type. The same element always
// gives the same bytes, whatever else is declared around it.
func (s *Scanner) CaptureDocument(dst []byte, limit int) ([]byte, error) {
	type declaration struct{ prefix, uri string }
	var around []declaration
	for i := s.own - 1; i >= 0; i-- {
		if b := &s.bindings[i]; !s.shadowed(i, len(s.bindings)) {
			around = append(around, declaration{string(s.nsText[b.prefix:b.uri]), s.uri(b)})
		}
	}
	from := len(dst)
	name := len(s.names) - int(s.stack[len(s.stack)-1].name)
	dst, bare, err := s.capture(dst, limit)
	if err != nil {
		return dst, err
	}
	around = slices.DeleteFunc(around, func(d declaration) bool {
		if d.prefix == "" {
			return !bare || d.uri == ""
		}
		return !mentions(dst[from:], d.prefix)
	})
	for _, a := range s.assumed {
		if a.used {
			around = append(around, declaration{a.Prefix, a.URI})
		}
	}
	if len(around) == 0 {
		return dst, nil
	}
	slices.SortStableFunc(around, func(a, b declaration) int { return bytes.Compare([]byte(a.prefix), []byte(b.prefix)) })
	var tag []byte
	for _, d := range around {
		tag = append(tag, " xmlns"...)
		if d.prefix != "" {
			tag = append(append(tag, ':'), d.prefix...)
		}
		tag = append(tag, `="`...)
		tag, _ = AppendEscaped(tag, d.uri) // read from a document, so XML can represent it
		tag = append(tag, '"')
	}
	return slices.Insert(dst, from+1+name, tag...), nil
}

// mentions reports whether b has prefix before a colon, as in a name.
func mentions(b []byte, prefix string) bool {
	name := []byte(prefix + ":")
	for at := 0; ; {
		i := bytes.Index(b[at:], name)
		if i < 0 {
			return false
		}
		if at += i; at == 0 || classes[b[at-1]]&className == 0 && b[at-1] < 0x80 {
			return true
		}
		at += len(name)
	}
}

// capture is Capture; bare reports whether a name inside has no prefix and is
// governed by a declaration outside of the element, or by none.
func (s *Scanner) capture(dst []byte, limit int) (_ []byte, bare bool, err error) {
	if limit <= 0 {
		limit = DefaultCapture
	}
	outside := s.own // bindings from here on belong to the element or its content
	s.taken = capture{on: true, from: s.tag, kept: dst, most: len(dst) + limit}
	defer func() { s.taken = capture{} }()
	bare = s.bare(outside)
	for depth := 1; depth > 0; {
		m, err := s.Next()
		if err != nil {
			return s.taken.kept, false, err
		}
		if m == Start {
			depth++
			bare = bare || s.bare(outside)
		} else {
			depth--
		}
		if err := s.overCapture(); err != nil {
			return s.taken.kept, false, err
		}
	}
	return append(s.taken.kept, s.buf[s.taken.from:s.pos]...), bare, nil
}

// overCapture reports an element that is too long to be captured.
func (s *Scanner) overCapture() error {
	if t := &s.taken; t.on && len(t.kept)+s.pos-t.from > t.most {
		return s.Errorf("%w: an element that is to be kept has too many bytes", ErrLimit)
	}
	return nil
}

// bare reports whether the current tag has no prefix and its namespace is not
// declared by one of the bindings from outside on.
func (s *Scanner) bare(outside int) bool {
	open := s.names[s.stack[len(s.stack)-1].name:]
	if len(open) != len(s.Local) {
		return false
	}
	for i := len(s.bindings) - 1; i >= outside; i-- {
		if b := &s.bindings[i]; b.prefix == b.uri {
			return false
		}
	}
	return true
}
