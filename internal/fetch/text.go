package fetch

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxText caps the length of untrusted text in one message.
const maxText = 2048

// Printable returns s for use on a terminal and in one line of a log: it
// escapes control characters, bidirectional formatting characters and invalid
// UTF-8, and truncates long text.
func Printable(s string) string {
	plain := len(s) <= maxText
	for i := 0; plain && i < len(s); i++ {
		plain = s[i] >= ' ' && s[i] < 0x7f
	}
	if plain {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		if b.Len() >= maxText {
			b.WriteString("…")
			break
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r == '\n' || r == '\t' || r == '\r':
			b.WriteByte(' ')
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += n
	}
	return b.String()
}

// withoutUser removes user and password from a URI for use in messages.
func withoutUser(uri string) string {
	head, rest, ok := strings.Cut(uri, "://")
	if !ok {
		return uri
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	if at := strings.LastIndexByte(rest[:end], '@'); at >= 0 {
		return head + "://" + rest[at+1:]
	}
	return uri
}

// WithoutUser returns an address for display and storage: without user name and
// password.
func WithoutUser(address string) string {
	before, rest, found := strings.Cut(address, "://")
	if !found {
		return address
	}
	end := len(rest)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		end = i
	}
	return before + "://" + rest[strings.LastIndexByte(rest[:end], '@')+1:]
}
