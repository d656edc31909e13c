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
	in     []byte // read, not yet processed
	out    []byte // processed, not yet returned
	buf    []byte // of out
	err    error  // of r, sticky
	state  cleanState
	begun  bool
	narrow bool // one byte is one character, so that bytes above ASCII are valid
	raw    bool // everything passes unchanged

	searched   int    // bytes of in that contain no beginning of a response
	junk       int    // bytes removed before the response
	junkBegins string // their beginning
}

// Clean makes the output of real repositories well formed where that is safe. It
// returns a reader that passes everything else unchanged, except that
//
//   - a character that XML forbids, raw or as a reference, and a byte that is
//     not UTF-8 become U+FFFD;
//   - an ampersand that begins no reference becomes &amp;, and a reference to an
//     entity that HTML defines and XML does not becomes the character;
//   - data before a response, within [MaxJunk], is removed: blanks, and output
//     of a program. [Junk] describes it.
//
// Documents in UTF-16 and gzip files pass unchanged.
func Clean(r io.Reader) io.Reader {
	return &cleaner{r: r, in: make([]byte, 0, cleanWindow), buf: make([]byte, 0, cleanWindow+cleanWindow/4)}
}

const (
	cleanWindow = 64 << 10
	cleanSniff  = 256 // bytes used to detect the encoding
	maxRefBytes = 40  // of a reference, longer than any entity's name
)

// cleanState is the syntactic position of c in a document.
type cleanState uint8

const (
	inText cleanState = iota // also in tags
	inComment
	inCDATA
	inInstruction
)

// cleanEnd holds the ends of constructs that are not text.
var cleanEnd = [...]string{inComment: "-->", inCDATA: "]]>", inInstruction: "?>"}

// Classes of bytes: with bit 0 set, the byte is valid in text; with bit 1,
// elsewhere.
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

// Read implements [io.Reader]. Its errors are those of the underlying reader.
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

// fill reads and processes data. What it leaves in c.in is too short to be
// classified.
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

// sniff examines the beginning of the document: whether it is text, and how wide
// its characters are.
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

// isBinary reports whether b begins like a gzip file or text in UTF-16.
func isBinary(b []byte) bool {
	return len(b) >= 2 && (b[0] == 0 || b[1] == 0 || b[0] == 0xfe && b[1] == 0xff || b[0] == 0xff && b[1] == 0xfe || b[0] == 0x1f && b[1] == 0x8b)
}

// pass appends the cleaned form of b to c.out and returns how much of b it
// processed; all of it if last is set.
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
			return at // more must be read
		}
		at += n
	}
}

// replace appends the replacement of an invalid character.
func (c *cleaner) replace() {
	if c.narrow {
		c.out = append(c.out, '?')
		return
	}
	c.out = utf8.AppendRune(c.out, utf8.RuneError)
}

// wide handles a character above ASCII.
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

// markup handles a construct that begins with <.
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

// end handles the possible end of a comment, a CDATA section or an instruction.
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

// reference handles a construct that begins with &.
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
		if c.narrow || r < utf8.RuneSelf { // these include < and &
			c.out = append(strconv.AppendInt(append(c.out, "&#"...), int64(r), 10), ';')
		} else {
			c.out = utf8.AppendRune(c.out, r)
		}
	}
	return n + 1
}

// bare handles an ampersand that begins no reference.
func (c *cleaner) bare() int {
	c.out = append(c.out, "&amp;"...)
	return 1
}

// number handles a numeric character reference.
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

// xmlChar reports whether the character is allowed in XML 1.0 (production 2).
func xmlChar(n uint64) bool {
	return n == '\t' || n == '\n' || n == '\r' || n >= ' ' && n <= 0xd7ff || n >= 0xe000 && n <= 0xfffd || n >= 0x10000 && n <= 0x10ffff
}

func alphanumeric(b byte) bool {
	return b >= '0' && b <= '9' || b|0x20 >= 'a' && b|0x20 <= 'z'
}
