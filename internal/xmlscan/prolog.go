package xmlscan

import (
	"bytes"
)

// declaration handles a construct that begins with <! at pos.
func (s *Scanner) declaration() error {
	b := s.buf[s.pos:s.end]
	switch {
	case len(b) < 3:
		return errMore
	case b[2] == '-':
		return s.comment(b)
	case b[2] == '[':
		return s.cdata(b)
	case b[2]|0x20 == 'd':
		return s.documentType(b)
	}
	return s.Errorf("markup that begins with <!%c", b[2])
}

// documentType handles a document type declaration: a bare one is accepted, one
// that declares anything is refused (RS-XML-13).
func (s *Scanner) documentType(b []byte) error {
	const begin = "<!DOCTYPE"
	n := min(len(b), len(begin))
	switch {
	case !bytes.EqualFold(b[:n], []byte(begin[:n])):
		return s.Errorf("a declaration outside a document type")
	case n < len(begin):
		return errMore
	case s.begun || s.doctype:
		return s.Errorf("a document type declaration out of place")
	}
	p := skipSpace(b, n)
	if p+5 > len(b) {
		return errMore
	}
	if s.html != nil && bytes.EqualFold(b[p:p+4], []byte("html")) && classes[b[p+4]]&className == 0 {
		return s.Errorf("%w", s.html)
	}
	if string(b[:n]) != begin || p == n {
		return s.Errorf("a document type declaration that is none")
	}
	_, _, p, err := s.name(s.buf[:s.end], s.pos+p)
	if err != nil {
		return err
	}
	if p, err = s.externalID(b, p-s.pos); err != nil {
		return err
	}
	if p = skipSpace(b, p); p >= len(b) {
		return errMore
	}
	switch b[p] {
	case '[':
		return s.Errorf("a document type with declarations is not accepted")
	case '>':
		s.pos, s.doctype = s.pos+p+1, true
		return nil
	}
	return s.Errorf("a document type declaration that is none")
}

// externalID parses an optional SYSTEM or PUBLIC part at b[p]; nothing is ever
// fetched.
func (s *Scanner) externalID(b []byte, p int) (int, error) {
	q := skipSpace(b, p)
	literals := 0
	switch {
	case q+6 > len(b):
		if q < len(b) && (b[q] == '>' || b[q] == '[') {
			return q, nil
		}
		return 0, errMore
	case q == p:
		return p, nil
	case string(b[q:q+6]) == "SYSTEM":
		literals = 1
	case string(b[q:q+6]) == "PUBLIC":
		literals = 2
	default:
		return q, nil
	}
	p = q + 6
	for range literals {
		q = skipSpace(b, p)
		if q >= len(b) {
			return 0, errMore
		}
		if q == p || b[q] != '"' && b[q] != '\'' {
			return 0, s.Errorf("a document type declaration that is none")
		}
		n := bytes.IndexByte(b[q+1:], b[q])
		if n < 0 {
			return 0, errMore
		}
		p = q + 1 + n + 1
	}
	return p, nil
}

// instruction handles a processing instruction, or the XML declaration.
func (s *Scanner) instruction() error {
	b := s.buf[:s.end]
	target, colon, p, err := s.name(b, s.pos+2)
	if err != nil {
		return err
	}
	n := bytes.Index(b[p:], []byte("?>"))
	if n < 0 {
		return errMore
	}
	body := b[p : p+n]
	switch {
	case string(target) == "xml" && s.Offset() == 0:
		if err := s.xmlDeclaration(body); err != nil {
			return err
		}
		s.declared = true
	case bytes.EqualFold(target, []byte("xml")):
		return s.Errorf("an XML declaration that is not at the very beginning")
	case colon > 0:
		return s.Errorf("a processing instruction with a colon in its target")
	case len(body) > 0 && classes[body[0]]&classSpace == 0:
		return s.Errorf("a processing instruction without white space behind its target")
	}
	s.pos = p + n + 2
	return nil
}

// xmlDeclaration checks the text between <?xml and ?>.
func (s *Scanner) xmlDeclaration(body []byte) error {
	fields := []string{"version", "encoding", "standalone"}
	for first := true; ; first = false {
		rest := bytes.TrimLeft(body, " \t\r\n")
		if len(rest) == 0 && !first {
			return nil
		}
		name, value, after, ok := pseudoAttribute(rest)
		if !ok || len(rest) == len(body) {
			return s.Errorf("an XML declaration that is none")
		}
		for len(fields) > 0 && fields[0] != name && !first {
			fields = fields[1:]
		}
		if len(fields) == 0 || fields[0] != name {
			return s.Errorf("an XML declaration with %q out of place", Clip(name))
		}
		fields = fields[1:]
		switch {
		case name == "version" && (len(value) < 3 || value[:2] != "1." || !allDigits(value[2:])):
			return s.Errorf("version %q of XML", Clip(value))
		case name == "encoding" && !encodingAgrees(s.encoding, value):
			return s.Errorf("%w: declared %q, but the bytes are %s", errEncoding, Clip(value), s.encoding)
		case name == "standalone" && value != "yes" && value != "no":
			return s.Errorf("an XML declaration with standalone %q", Clip(value))
		}
		body = after
	}
}

// pseudoAttribute reads name="value" at the beginning of b.
func pseudoAttribute(b []byte) (name, value string, rest []byte, ok bool) {
	i := 0
	for i < len(b) && b[i] >= 'a' && b[i] <= 'z' {
		i++
	}
	name = string(b[:i])
	b = bytes.TrimLeft(b[i:], " \t\r\n")
	if len(b) == 0 || b[0] != '=' {
		return "", "", nil, false
	}
	b = bytes.TrimLeft(b[1:], " \t\r\n")
	if len(b) == 0 || b[0] != '"' && b[0] != '\'' {
		return "", "", nil, false
	}
	n := bytes.IndexByte(b[1:], b[0])
	if n < 0 {
		return "", "", nil, false
	}
	return name, string(b[1 : 1+n]), b[n+2:], true
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
