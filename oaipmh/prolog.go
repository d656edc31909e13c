package oaipmh

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
)

// MaxJunk is how many bytes are searched for the beginning of a response. They
// may contain output that a program printed before it, such as warnings,
// comments, blank lines and byte order marks. A response that begins later is
// not found.
const MaxJunk = cleanWindow

var (
	rootBegins = regexp.MustCompile(`<(?:[\w.-]+:)?OAI-PMH[\s>]`)
	declBegins = regexp.MustCompile(`<\?xml\s`)
)

// Junk describes what [Clean] has removed before the response in r, as far as r
// was read; "" if only blanks. r must be a result of Clean.
func Junk(r io.Reader) string {
	c, ok := r.(*cleaner)
	if !ok || c.junk == 0 {
		return ""
	}
	return fmt.Sprintf("%d bytes in front of the XML document were left out, which begin %q", c.junk, c.junkBegins)
}

// junkShown is how much of it is quoted.
const junkShown = 60

// skipJunk removes data before the response. It returns false if more must be
// read to find the beginning.
func (c *cleaner) skipJunk() bool {
	from := max(0, c.searched-64) // a tag may have been split
	root := rootBegins.FindIndex(c.in[from:])
	if root == nil {
		c.searched = len(c.in)
		return c.err != nil || len(c.in) == cap(c.in)
	}
	begin := from + root[0]
	if all := declBegins.FindAllIndex(c.in[:begin], -1); len(all) > 0 {
		begin = all[len(all)-1][0]
	} else if onlyMarkup(c.in[:begin]) {
		return true
	}
	if mark := []byte("\xef\xbb\xbf"); bytes.Equal(c.in[:begin], mark) {
		return true
	}
	if begin > 0 {
		c.junk = begin
		c.junkBegins = string(bytes.ToValidUTF8(c.in[:min(begin, junkShown)], []byte("\uFFFD")))
		c.in = c.in[:copy(c.in, c.in[begin:])]
	}
	return true
}

// onlyMarkup reports whether b is allowed before a root element in XML without
// a declaration: comments, instructions and blanks.
func onlyMarkup(b []byte) bool {
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	for {
		b = bytes.TrimLeft(b, " \t\r\n")
		end := ""
		switch {
		case len(b) == 0:
			return true
		case bytes.HasPrefix(b, []byte("<!--")):
			end = "-->"
		case bytes.HasPrefix(b, []byte("<?")):
			end = "?>"
		case len(b) > 13 && bytes.EqualFold(b[:9], []byte("<!DOCTYPE")):
			return !bytes.EqualFold(b[10:14], []byte("html")) // the Reader refuses declarations
		default:
			return false
		}
		_, rest, found := bytes.Cut(b, []byte(end))
		if !found {
			return false
		}
		b = rest
	}
}
