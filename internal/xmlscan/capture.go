package xmlscan

import (
	"bytes"
	"slices"
)

// A capture is the state of Capture while the window moves on below it.
type capture struct {
	on   bool
	from int    // where in the window what is not in kept yet begins
	kept []byte // what has left the window
	most int    // how long kept may become
}

// Capture reads the element whose start tag is at hand up to its end and
// appends it to dst as it stands in the document, in UTF-8. It is an error
// (ErrLimit) if the element has more than limit bytes; 0 stands for
// DefaultCapture. What is returned is the caller's.
func (s *Scanner) Capture(dst []byte, limit int) ([]byte, error) {
	out, _, err := s.capture(dst, limit)
	return out, err
}

// CaptureDocument is Capture for an element that is to be a document of its
// own: the namespace declarations in force around the element that it makes
// use of are put on it, in the order of their prefixes. That is so also for
// prefixes in its texts and values, where they look like one: xsi:type is
// often used so. The same element gives the same bytes whatever else is
// declared around it.
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
	slices.SortFunc(around, func(a, b declaration) int { return bytes.Compare([]byte(a.prefix), []byte(b.prefix)) })
	var tag []byte
	for _, d := range around {
		tag = append(tag, " xmlns"...)
		if d.prefix != "" {
			tag = append(append(tag, ':'), d.prefix...)
		}
		tag = append(tag, `="`...)
		tag, _ = AppendEscaped(tag, d.uri) // it was read from a document: XML can say it
		tag = append(tag, '"')
	}
	return slices.Insert(dst, from+1+name, tag...), nil
}

// mentions reports whether b has prefix in front of a colon, as a name would.
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

// capture is Capture; bare tells whether a name inside has no prefix and is
// governed by a declaration outside of the element, or by none.
func (s *Scanner) capture(dst []byte, limit int) (_ []byte, bare bool, err error) {
	if limit <= 0 {
		limit = DefaultCapture
	}
	outside := s.own // bindings from here on are of the element or inside it
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

// bare reports whether the tag at hand has no prefix and its namespace is not
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
