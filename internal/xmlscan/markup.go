package xmlscan

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// A Mark is the kind of position at which Next stopped.
type Mark uint8

const (
	Start Mark = iota // a start tag: see Local, Space and Attrs
	End               // an end tag, or the end of an empty element
	EOF               // the end of the document, which was well formed
)

// Next advances to the next start or end tag, or to the end of the document.
func (s *Scanner) Next() (Mark, error) {
	if !s.opened {
		if err := s.open(); err != nil {
			return 0, err
		}
	}
	return s.next()
}

// next is Next once the document is open. It stores the text directly in the
// element at depth collect.
func (s *Scanner) next() (Mark, error) {
	if s.empty {
		s.empty = false
		s.pop()
		return End, nil
	}
	for {
		m, found, err := s.token()
		if err != nil && errors.Is(err, errMore) {
			if err = s.more(); err == nil {
				continue
			}
			if err == io.EOF && len(s.stack) == 0 {
				return EOF, s.ending()
			}
			return 0, s.eof(err)
		}
		if err != nil || found {
			return m, err
		}
	}
}

// ending returns the error for a document that ends outside of all elements.
func (s *Scanner) ending() error {
	b := s.buf[:s.end]
	p := skipSpace(b, s.pos)
	switch {
	case p < len(b) && b[p] == '<':
		return s.eof(io.EOF)
	case p < len(b) && s.begun:
		return s.errorAt(p, "text after the root element")
	case p < len(b):
		return s.errorAt(p, "%w: it begins with %q", s.notDocument, Clip(string(b[p:])))
	case !s.begun:
		return s.Errorf("%w: it has no element at all", s.notDocument)
	}
	return nil
}

// token handles the next piece of the document: text, or markup. It reports
// whether that was a tag.
func (s *Scanner) token() (Mark, bool, error) {
	b := s.buf[:s.end]
	if s.pos >= len(b) {
		return 0, false, errMore
	}
	if b[s.pos] != '<' {
		n, plain := textEnd(b[s.pos:])
		if n < 0 {
			return 0, false, errMore
		}
		if err := s.chars(b[s.pos:s.pos+n], plain); err != nil {
			return 0, false, err
		}
		s.pos += n
	}
	if s.pos+1 >= len(b) {
		return 0, false, errMore
	}
	switch b[s.pos+1] {
	case '/':
		return End, true, s.endTag()
	case '!':
		return 0, false, s.declaration()
	case '?':
		return 0, false, s.instruction()
	}
	if len(s.stack) == 0 {
		if s.begun {
			return 0, false, s.Errorf("a second root element")
		}
		if s.html != nil && isHTML(b[s.pos+1:]) {
			return 0, false, s.Errorf("%w", s.html)
		}
	}
	if err := s.startTag(); err != nil {
		return 0, false, err
	}
	s.begun = true
	return Start, true, nil
}

// isHTML reports whether b begins with the name of an element that begins an
// HTML page.
func isHTML(b []byte) bool {
	for _, name := range []string{"html", "head", "body"} {
		if len(b) > len(name) && bytes.EqualFold(b[:len(name)], []byte(name)) && classes[b[len(name)]]&className == 0 {
			return true
		}
	}
	return false
}

// chars handles text between markup; plain is whether nothing in it has to be decoded.
func (s *Scanner) chars(text []byte, plain bool) error {
	i := skipSpace(text, 0)
	if i == len(text) && s.collect == 0 {
		return nil
	}
	if len(s.stack) == 0 && i < len(text) {
		switch {
		case s.begun:
			return s.errorAt(s.pos+i, "text after the root element")
		case s.Offset() == 0 && !s.doctype:
			return s.errorAt(s.pos+i, "%w: it begins with %q", s.notDocument, Clip(string(text[i:])))
		}
		return s.errorAt(s.pos+i, "text in front of the root element")
	}
	s.solid = s.solid || i < len(text)
	keep := s.collect > 0 && s.collect == len(s.stack)
	if plain {
		if keep {
			s.text = append(s.text, text...)
		}
		return s.checkText()
	}
	if j := bytes.Index(text, []byte("]]>")); j >= 0 {
		return s.errorAt(s.pos+j, "]]> in text")
	}
	kept := len(s.text)
	var err error
	if s.text, err = appendDecoded(s.text, text, false); err != nil {
		return s.Errorf("%w", err)
	}
	if !keep {
		s.text = s.text[:kept]
	}
	return s.checkText()
}

func (s *Scanner) checkText() error {
	if len(s.text) > s.maxToken {
		if s.clips {
			s.collect = 0
			return nil
		}
		return s.Errorf("%w: an element with more than %d bytes of text", ErrLimit, s.maxToken)
	}
	return nil
}

func (s *Scanner) comment(b []byte) error {
	if len(b) < 4 {
		return errMore
	}
	if b[3] != '-' {
		return s.Errorf("a comment that begins with <!- only")
	}
	n := bytes.Index(b[4:], []byte("--"))
	if n < 0 || 4+n+2 >= len(b) {
		return errMore
	}
	if b[4+n+2] != '>' {
		return s.errorAt(s.pos+4+n, "two hyphens inside a comment")
	}
	s.pos += 4 + n + 3
	return nil
}

func (s *Scanner) cdata(b []byte) error {
	const begin = "<![CDATA["
	if n := min(len(b), len(begin)); string(b[:n]) != begin[:n] {
		return s.Errorf("markup that begins with <![ but is no CDATA section")
	}
	if len(s.stack) == 0 {
		return s.Errorf("a CDATA section outside the root element")
	}
	n := bytes.Index(b, []byte("]]>"))
	if n < 0 {
		return errMore
	}
	s.solid = s.solid || skipSpace(b, len(begin)) < n
	if s.collect > 0 && s.collect == len(s.stack) {
		s.text = appendLines(s.text, b[len(begin):n])
	}
	s.pos += n + 3
	return s.checkText()
}

var errEntity = errors.New("an & that begins no reference known")

// appendDecoded appends the decoded text: references resolved, line ends
// unified and, in an attribute, white space replaced by blanks.
func appendDecoded(dst, text []byte, attribute bool) ([]byte, error) {
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '&':
			n := bytes.IndexByte(text[i:], ';')
			if n < 0 {
				return dst, errEntity
			}
			var ok bool
			if dst, ok = appendReference(dst, text[i+1:i+n]); !ok {
				return dst, fmt.Errorf("%w: &%s;", errEntity, Clip(string(text[i+1:i+n])))
			}
			i += n
			continue
		case c == '\r':
			if i+1 < len(text) && text[i+1] == '\n' {
				i++
			}
			c = '\n'
		}
		if attribute && classes[c]&classSpace != 0 {
			c = ' '
		}
		dst = append(dst, c)
	}
	return dst, nil
}

// appendLines appends text with its line ends unified.
func appendLines(dst, text []byte) []byte {
	if bytes.IndexByte(text, '\r') < 0 {
		return append(dst, text...)
	}
	for i, c := range text {
		switch {
		case c == '\n' && i > 0 && text[i-1] == '\r':
		case c == '\r':
			dst = append(dst, '\n')
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// appendReference appends the character of the reference &name;. Only numbers
// and the five names of XML are supported; a document cannot declare more.
func appendReference(dst, name []byte) ([]byte, bool) {
	switch string(name) {
	case "amp":
		return append(dst, '&'), true
	case "lt":
		return append(dst, '<'), true
	case "gt":
		return append(dst, '>'), true
	case "quot":
		return append(dst, '"'), true
	case "apos":
		return append(dst, '\''), true
	}
	if len(name) < 2 || name[0] != '#' {
		return dst, false
	}
	digits, base := name[1:], rune(10)
	if digits[0] == 'x' {
		digits, base = digits[1:], 16
	}
	r := rune(0)
	for _, c := range digits {
		d := rune(unhex[c])
		if d >= base {
			return dst, false
		}
		if r = r*base + d; r > utf8.MaxRune {
			return dst, false
		}
	}
	ok := r == '\t' || r == '\n' || r == '\r' || r >= ' ' && utf8.ValidRune(r) && r != 0xFFFE && r != 0xFFFF
	return utf8.AppendRune(dst, r), ok && len(digits) > 0
}
