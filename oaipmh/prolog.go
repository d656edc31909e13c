package oaipmh

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
)

// MaxJunk is how many bytes in front of a response are searched for its
// beginning: what a program printed before it, such as warnings, comments, blank
// lines and byte order marks. Where the response begins later it is not found.
const MaxJunk = cleanWindow

var (
	rootBegins = regexp.MustCompile(`<(?:[\w.-]+:)?OAI-PMH[\s>]`)
	declBegins = regexp.MustCompile(`<\?xml\s`)
)

// Junk describes what [Clean] has left out in front of the response that r
// brings, as far as r was read; "" if it was nothing but blanks. r must have
// come from Clean.
func Junk(r io.Reader) string {
	c, ok := r.(*cleaner)
	if !ok || c.junk == 0 {
		return ""
	}
	return fmt.Sprintf("%d bytes in front of the XML document were left out, which begin %q", c.junk, c.junkBegins)
}

// junkShown is how much of it is quoted.
const junkShown = 60

// skipJunk leaves out what is in front of the response. It reports false where
// more has to be read to find its beginning.
func (c *cleaner) skipJunk() bool {
	from := max(0, c.searched-64) // a tag may have been cut in two
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

// onlyMarkup reports whether b is what XML allows in front of a root element
// where there is no declaration: comments, instructions and blanks.
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
			return !bytes.EqualFold(b[10:14], []byte("html")) // declarations are for the Reader to refuse
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
