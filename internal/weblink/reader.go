package weblink

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// maxText caps one link of a document: an endless one must not fill memory.
const maxText = 64 << 10

// ErrSyntax reports a document that is not in link format.
var ErrSyntax = errors.New("it is not in link format")

// A Reader reads a document in link format, link by link (ME-TM-06). It accepts
// any white space, line ends and commas between links, and also a missing
// comma. It is not safe for concurrent use.
type Reader struct {
	r    *bufio.Reader
	n    int64 // bytes read
	text []byte
	err  error // sticky
}

// NewReader returns a Reader of the document in r.
func NewReader(r io.Reader) *Reader { return &Reader{r: bufio.NewReader(r)} }

// Next returns the next link as written, without resolving target or anchor;
// io.EOF at the end. The error is [ErrSyntax] if the document is invalid.
func (r *Reader) Next() (Link, error) {
	if r.err == nil {
		r.err = r.collect()
	}
	if r.err != nil {
		return Link{}, r.err
	}
	p := parser{s: string(r.text)}
	raw, ok := p.next()
	if !ok {
		r.err = r.syntax("no link")
		return Link{}, r.err
	}
	l, _ := raw.seenFrom(nil) // of any context
	return l, nil
}

func (r *Reader) syntax(what string) error {
	return fmt.Errorf("byte %d: %s: %w", r.n, what, ErrSyntax)
}

// collect reads the text of the next link, on one line.
func (r *Reader) collect() error {
	r.text = r.text[:0]
	c, err := r.begin()
	if err != nil {
		return err
	}
	for quoted, target := false, true; ; {
		if r.text = append(r.text, c); len(r.text) > maxText {
			return r.syntax("the link is too long")
		}
		escaped := quoted && c == '\\'
		switch {
		case target:
			target = c != '>'
		case c == '"':
			quoted = !quoted
		}
		c, err = r.byte()
		if err == nil && escaped {
			r.text = append(r.text, c)
			c, err = r.byte()
		}
		switch {
		case err == io.EOF && !quoted && !target:
			return nil
		case err == io.EOF:
			return r.syntax("the document ends within a link")
		case err != nil:
			return err
		case quoted || target:
		case c == ',':
			return nil
		case c == '<': // the comma is missing
			r.n--
			return r.r.UnreadByte()
		case c == '\n' || c == '\r' || c == '\f' || c == '\v':
			c = ' '
		}
	}
}

// begin reads up to the first byte of a link.
func (r *Reader) begin() (byte, error) {
	for {
		c, err := r.byte()
		if err != nil {
			return 0, err
		}
		switch c {
		case '<':
			return c, nil
		case ' ', '\t', '\n', '\r', '\f', '\v', ',':
		default:
			return 0, r.syntax(fmt.Sprintf("%q where a link should begin", c))
		}
	}
}

func (r *Reader) byte() (byte, error) {
	c, err := r.r.ReadByte()
	if err == nil {
		r.n++
	}
	return c, err
}
