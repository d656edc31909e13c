package oaipmh

import (
	"bytes"
	"errors"
	"html"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A cleaner is what [Clean] returns.
type cleaner struct {
	r      io.Reader
	in     []byte // read, not yet looked at
	out    []byte // looked at, not yet handed on
	buf    []byte // of out
	err    error  // of r, sticks
	state  cleanState
	begun  bool
	narrow bool // one byte is one character, so that bytes above ASCII are as good as others
	raw    bool // nothing is looked at

	searched   int    // bytes of in without the beginning of a response
	junk       int    // bytes left out in front of it
	junkBegins string // the first of them
}

// Clean makes what repositories really send well formed where that is safe: what
// passes through it stays as it is, but
//
//   - a character that XML forbids, raw or as a reference, and a byte that is no
//     UTF-8 become U+FFFD;
//   - an ampersand that begins no reference becomes &amp;, and a reference to an
//     entity that HTML knows and XML does not becomes the character;
//   - what is in front of a response, within [MaxJunk], is left out: blanks, and
//     what a program printed. [Junk] describes it.
//
// Documents in UTF-16 and gzip files pass as they are.
func Clean(r io.Reader) io.Reader {
	return &cleaner{r: r, in: make([]byte, 0, cleanWindow), buf: make([]byte, 0, cleanWindow+cleanWindow/4)}
}

const (
	cleanWindow = 64 << 10
	cleanSniff  = 256 // bytes by which the encoding is told
	maxRefBytes = 40  // of a reference, longer than any entity's name
)

// cleanState says where in a document c is.
type cleanState uint8

const (
	inText cleanState = iota // and in tags
	inComment
	inCDATA
	inInstruction
)

// cleanEnd ends what is not text.
var cleanEnd = [...]string{inComment: "-->", inCDATA: "]]>", inInstruction: "?>"}

// What a byte is, by state: bit 0 set, it passes in text; bit 1, elsewhere.
var cleanClass = func() (t [256]uint8) {
	for b := range 256 {
		if b >= ' ' && b < utf8.RuneSelf || b == '\t' || b == '\n' || b == '\r' {
			t[b] = 3
		}
	}
	t['&'], t['<'] = 2, 2
	t['-'], t[']'], t['?'] = 1, 1, 1
	return t
}()

// Read implements [io.Reader]. Its errors are those of the reader below.
func (c *cleaner) Read(p []byte) (int, error) {
	for len(c.out) == 0 {
		if c.err != nil && len(c.in) == 0 {
			return 0, c.err
		}
		c.fill()
	}
	n := copy(p, c.out)
	c.out = c.out[n:]
	return n, nil
}

// fill reads and looks at what was read. What it leaves in c.in is too little to
// tell what it is.
func (c *cleaner) fill() {
	if c.err == nil {
		n, err := c.r.Read(c.in[len(c.in):cap(c.in)])
		c.in, c.err = c.in[:len(c.in)+n], err
	}
	if !c.begun {
		blanks := len(c.in) - len(bytes.TrimLeft(c.in, " \t\r\n"))
		c.in = c.in[:copy(c.in, c.in[blanks:])]
		if len(c.in) < 2 && c.err == nil {
			return
		}
		if !isBinary(c.in) && !c.skipJunk() || len(c.in) < cleanSniff && c.err == nil {
			return
		}
		c.begun = true
		c.sniff()
	}
	c.out = c.buf[:0]
	at := c.pass(c.in, c.err != nil)
	c.buf = c.out[:0]
	rest := copy(c.in[:cap(c.in)], c.in[at:])
	c.in = c.in[:rest]
}

// sniff looks at the beginning of the document: is it text, and how wide are its
// characters?
func (c *cleaner) sniff() {
	b := c.in
	if isBinary(b) {
		c.raw = true
		return
	}
	decl, _, found := bytes.Cut(b[:min(len(b), cleanSniff)], []byte("?>"))
	if !found || !bytes.HasPrefix(decl, []byte("<?xml")) {
		return
	}
	_, name, found := bytes.Cut(bytes.ToLower(decl), []byte("encoding"))
	c.narrow = found && !bytes.Contains(name, []byte("utf")) && !bytes.Contains(name, []byte("ascii"))
}

// isBinary reports whether b begins as a gzip file or as text in UTF-16.
func isBinary(b []byte) bool {
	return len(b) >= 2 && (b[0] == 0 || b[1] == 0 || b[0] == 0xfe && b[1] == 0xff || b[0] == 0xff && b[1] == 0xfe || b[0] == 0x1f && b[1] == 0x8b)
}

// pass appends to c.out what b becomes and returns how much of b that was; all of
// it if it is the last.
func (c *cleaner) pass(b []byte, last bool) int {
	if c.raw {
		c.out = append(c.out, b...)
		return len(b)
	}
	for at := 0; ; {
		from, bit := at, uint8(1)
		if c.state != inText {
			bit = 2
		}
		for at < len(b) && cleanClass[b[at]]&bit != 0 {
			at++
		}
		c.out = append(c.out, b[from:at]...)
		if at == len(b) {
			return at
		}
		n := 0
		switch ch := b[at]; {
		case ch >= utf8.RuneSelf:
			n = c.wide(b[at:], last)
		case ch < ' ':
			c.replace()
			n = 1
		case ch == '&':
			n = c.reference(b[at:], last)
		case ch == '<':
			n = c.markup(b[at:], last)
		default:
			n = c.end(b[at:], last)
		}
		if n == 0 {
			return at // more has to be read
		}
		at += n
	}
}

// replace appends what stands for a character that cannot be.
func (c *cleaner) replace() {
	if c.narrow {
		c.out = append(c.out, '?')
		return
	}
	c.out = utf8.AppendRune(c.out, utf8.RuneError)
}

// wide deals with a character above ASCII.
func (c *cleaner) wide(b []byte, last bool) int {
	if c.narrow {
		c.out = append(c.out, b[0])
		return 1
	}
	if !last && !utf8.FullRune(b) {
		return 0
	}
	r, n := utf8.DecodeRune(b)
	if r == utf8.RuneError && n == 1 || r == 0xfffe || r == 0xffff {
		c.replace()
		return n
	}
	c.out = append(c.out, b[:n]...)
	return n
}

// markup deals with what begins with <.
func (c *cleaner) markup(b []byte, last bool) int {
	for state, begin := range [...]string{inComment: "<!--", inCDATA: "<![CDATA[", inInstruction: "<?"} {
		switch n := min(len(b), len(begin)); {
		case begin == "" || string(b[:n]) != begin[:n]:
		case n == len(begin):
			c.state = cleanState(state)
			c.out = append(c.out, begin...)
			return n
		case !last:
			return 0
		}
	}
	c.out = append(c.out, '<')
	return 1
}

// end deals with what may end a comment, a CDATA section or an instruction.
func (c *cleaner) end(b []byte, last bool) int {
	end := cleanEnd[c.state]
	switch n := min(len(b), len(end)); {
	case string(b[:n]) != end[:n] || n < len(end) && last:
		c.out = append(c.out, b[0])
		return 1
	case n < len(end):
		return 0
	}
	c.out = append(c.out, end...)
	c.state = inText
	return len(end)
}

// reference deals with what begins with &.
func (c *cleaner) reference(b []byte, last bool) int {
	n := 1
	for n < len(b) && n < maxRefBytes && (b[n] == '#' && n == 1 || alphanumeric(b[n])) {
		n++
	}
	if n == len(b) && n < maxRefBytes && !last {
		return 0
	}
	if n == 1 || n == len(b) || b[n] != ';' {
		return c.bare()
	}
	name := string(b[1:n])
	switch name {
	case "amp", "lt", "gt", "quot", "apos":
		c.out = append(c.out, b[:n+1]...)
		return n + 1
	}
	if digits, ok := strings.CutPrefix(name, "#"); ok {
		return c.number(b[:n+1], digits)
	}
	text := html.UnescapeString("&" + name + ";")
	if strings.HasPrefix(text, "&"+name) || strings.HasSuffix(text, ";") {
		return c.bare()
	}
	for _, r := range text {
		if c.narrow || r < utf8.RuneSelf { // among these are < and &
			c.out = append(strconv.AppendInt(append(c.out, "&#"...), int64(r), 10), ';')
		} else {
			c.out = utf8.AppendRune(c.out, r)
		}
	}
	return n + 1
}

// bare deals with an ampersand that begins no reference.
func (c *cleaner) bare() int {
	c.out = append(c.out, "&amp;"...)
	return 1
}

// number deals with a reference to a character by its number.
func (c *cleaner) number(b []byte, digits string) int {
	base := 10
	if hex, ok := strings.CutPrefix(digits, "x"); ok {
		digits, base = hex, 16
	}
	n, err := strconv.ParseUint(digits, base, 32)
	switch {
	case digits == "" || err != nil && !errors.Is(err, strconv.ErrRange):
		return c.bare()
	case err != nil || !xmlChar(n):
		c.replace()
	default:
		c.out = append(c.out, b...)
	}
	return len(b)
}

// xmlChar reports whether XML 1.0 has the character (production 2).
func xmlChar(n uint64) bool {
	return n == '\t' || n == '\n' || n == '\r' || n >= ' ' && n <= 0xd7ff || n >= 0xe000 && n <= 0xfffd || n >= 0x10000 && n <= 0x10ffff
}

func alphanumeric(b byte) bool {
	return b >= '0' && b <= '9' || b|0x20 >= 'a' && b|0x20 <= 'z'
}
