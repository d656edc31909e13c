// Package pretty divides XML into lines with indentation, each with its position in the
// document. It also takes documents that are not well formed: they are shown because
// something is wrong with them.
package pretty

import (
	"bufio"
	"bytes"
	"io"
	"iter"
	"strings"
)

const (
	// maxToken is how many bytes of a tag, text or comment are shown.
	maxToken = 8 << 10
	// maxJoined is how long a text may be that is in one line with its element.
	maxJoined = 2 << 10
	// maxIndent limits the width of lines: documents may be nested without end.
	maxIndent = 40
)

// A Line is a line of the result.
type Line struct {
	Indent       int // levels
	Text         string
	Line, Column int // of its beginning in the document, in characters from 1
}

// Indented returns the text behind its indentation.
func (l *Line) Indented() string { return strings.Repeat("  ", l.Indent) + l.Text }

// Lines yields the lines of the XML in r. It ends at the end of r, or at an error of
// reading it.
func Lines(r io.Reader) iter.Seq[Line] {
	return func(yield func(Line) bool) {
		p := printer{in: bufio.NewReaderSize(r, 64<<10), line: 1, column: 1, yield: yield}
		for p.token() {
		}
		p.flush()
	}
}

// A printer joins tokens to lines.
type printer struct {
	in           *bufio.Reader
	line, column int // of the next byte
	depth        int
	pending      *Line // an element that was opened: its text and end may join it
	hasText      bool  // pending has a text
	stopped      bool
	yield        func(Line) bool
}

func (p *printer) emit(l Line) {
	if !p.stopped && !p.yield(l) {
		p.stopped = true
	}
}

func (p *printer) flush() {
	if p.pending != nil {
		p.emit(*p.pending)
		p.pending = nil
	}
}

// next returns the next byte.
func (p *printer) next() (byte, bool) {
	c, err := p.in.ReadByte()
	if err != nil {
		return 0, false
	}
	switch {
	case c == '\n':
		p.line, p.column = p.line+1, 1
	case c&0xc0 != 0x80: // no further byte of a character
		p.column++
	}
	return c, true
}

// token reads a tag or text, and reports whether there may be another.
func (p *printer) token() bool {
	head, err := p.in.Peek(1)
	if err != nil || p.stopped {
		return false
	}
	at := Line{Line: p.line, Column: p.column}
	if head[0] != '<' {
		p.text(at)
		return true
	}
	at.Text = p.tag()
	switch {
	case strings.HasPrefix(at.Text, "</"):
		p.depth = max(p.depth-1, 0)
		if p.pending != nil {
			p.pending.Text += at.Text
			p.flush()
			return true
		}
		at.Indent = min(p.depth, maxIndent)
		p.emit(at)
	case strings.HasPrefix(at.Text, "<!"), strings.HasPrefix(at.Text, "<?"), strings.HasSuffix(at.Text, "/>"):
		p.flush()
		at.Indent = min(p.depth, maxIndent)
		p.emit(at)
	default:
		p.flush()
		at.Indent = min(p.depth, maxIndent)
		p.depth++
		p.pending, p.hasText = &at, false
	}
	return true
}

// text reads up to the next tag.
func (p *printer) text(at Line) {
	var b bytes.Buffer
	begun := false
	for {
		head, err := p.in.Peek(1)
		if err != nil || head[0] == '<' {
			break
		}
		line, column := p.line, p.column
		c, _ := p.next()
		if !begun && isSpace(c) {
			continue
		}
		if !begun {
			begun, at.Line, at.Column = true, line, column
		}
		keep(&b, c)
	}
	at.Text = clean(bytes.TrimSpace(b.Bytes()))
	switch {
	case at.Text == "":
	case p.pending != nil && !p.hasText && len(at.Text) <= maxJoined:
		p.pending.Text += at.Text
		p.hasText = true
	default:
		p.flush()
		at.Indent = min(p.depth, maxIndent)
		p.emit(at)
	}
}

// tag reads a tag, comment, section or instruction, with single blanks outside quotes.
func (p *printer) tag() string {
	var b, start bytes.Buffer
	var quote byte
	end := ">"
	for {
		c, ok := p.next()
		if !ok {
			break
		}
		if start.Len() < 9 {
			start.WriteByte(c)
			switch start.String() {
			case "<!--":
				end = "-->"
			case "<![CDATA[":
				end = "]]>"
			}
		}
		if end == ">" {
			switch {
			case quote == 0 && (c == '"' || c == '\'') && b.Len() > 1 && b.Bytes()[1] != '!':
				quote = c
			case c == quote:
				quote = 0
			case quote == 0 && isSpace(c):
				if bytes.HasSuffix(b.Bytes(), []byte(" ")) {
					continue
				}
				c = ' '
			}
		}
		keep(&b, c)
		if quote == 0 && c == '>' && bytes.HasSuffix(b.Bytes(), []byte(end)) {
			break
		}
	}
	return clean(b.Bytes())
}

// keep appends c, unless the token is too long: then its beginning and its end are kept.
func keep(b *bytes.Buffer, c byte) {
	if b.Len() >= maxToken+8 {
		tail := append([]byte(nil), b.Bytes()[b.Len()-4:]...)
		b.Truncate(maxToken - 4)
		b.WriteString(" … ")
		b.Write(tail)
	}
	b.WriteByte(c)
}

// clean makes a token one line of valid text.
func clean(b []byte) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, string(bytes.ToValidUTF8(b, []byte("\uFFFD"))))
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }
