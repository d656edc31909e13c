package xmlscan

import (
	"bytes"

	"lockstep/internal/byteset"
)

// The bytes at which a search stops to look closer.
var (
	textStops   = byteset.New(func(c byte) bool { return c == '<' || c == '&' || c == '\r' || c == ']' })
	doubleStops = valueStops('"')
	singleStops = valueStops('\'')

	// unsure are those that are no character that XML allows, or only part of one.
	unsure = byteset.New(func(c byte) bool { return c < ' ' && classes[c]&classSpace == 0 || c >= 0x80 })
)

// valueStops are the quote, and what has to be decoded, or is an error, in a value.
func valueStops(quote byte) *byteset.Set {
	return byteset.New(func(c byte) bool { return c == quote || c == '&' || c == '<' || c < ' ' })
}

// textEnd returns the position of the first < in b, or -1, and whether the text in
// front of it contains neither references, nor line ends to be unified, nor a ].
func textEnd(b []byte) (n int, plain bool) {
	n = textStops.Index(b)
	if n < len(b) && b[n] == '<' {
		return n, true
	}
	return laterIndex(b, n, '<'), false
}

// valueEnd returns the position of the first quote in b, or -1, and whether the value
// in front of it contains neither references, nor white space to be replaced, nor a <.
func valueEnd(b []byte, quote byte) (n int, plain bool) {
	stops := doubleStops
	if quote == '\'' {
		stops = singleStops
	}
	n = stops.Index(b)
	if n < len(b) && b[n] == quote {
		return n, true
	}
	return laterIndex(b, n, quote), false
}

// laterIndex returns the position of the first c in b[from:] as one in b, or -1.
func laterIndex(b []byte, from int, c byte) int {
	n := bytes.IndexByte(b[from:], c)
	if n < 0 {
		return -1
	}
	return from + n
}
