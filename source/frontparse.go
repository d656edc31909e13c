package source

import (
	"bytes"
	"strings"

	"lockstep/internal/negotiate"
)

// An ask is a request the front may answer.
type ask struct {
	path string // as it was sent
	gzip bool   // see negotiate.Gzip
}

var headersEnd = []byte("\r\n\r\n")

// headerEnd returns the length of the header of a request, 0 if text does not
// hold all of it.
func headerEnd(text []byte) int {
	i := bytes.Index(text, headersEnd)
	if i < 0 {
		return 0
	}
	return i + len(headersEnd)
}

const askPrefix = "GET /"

// plausible reports whether text can become a request for us.
func plausible(text []byte) bool {
	n := min(len(text), len(askPrefix))
	return string(text[:n]) == askPrefix[:n]
}

// parseAsk reads the header of a request (RFC 9112). It takes only what has one
// meaning: HTTP/1.1, a path of plain characters, one Host, and headers that
// have no bearing on the answer, each in one line. All else is not ok, which
// does not mean that it is wrong.
func parseAsk(text []byte) (a ask, ok bool) {
	line, rest, found := bytes.Cut(text, []byte("\r\n"))
	if !found || !bytes.HasPrefix(line, []byte("GET /")) || !bytes.HasSuffix(line, []byte(" HTTP/1.1")) {
		return a, false
	}
	path := line[len("GET ") : len(line)-len(" HTTP/1.1")]
	if !plainPath(path) {
		return a, false
	}
	hosts, codings := 0, 0
	var coding string
	for {
		line, rest, found = bytes.Cut(rest, []byte("\r\n"))
		if !found {
			return a, false
		}
		if len(line) == 0 {
			break
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || !plainValue(value) {
			return a, false
		}
		value = bytes.Trim(value, " \t")
		switch {
		case equalName(name, "host"):
			if hosts++; !plainHost(value) {
				return a, false
			}
		case equalName(name, "accept-encoding"):
			codings++
			coding = string(value)
		case equalName(name, "connection"):
			if !bytes.EqualFold(value, []byte("keep-alive")) {
				return a, false
			}
		case equalName(name, "user-agent"), equalName(name, "accept"), equalName(name, "accept-language"),
			equalName(name, "cache-control"), equalName(name, "pragma"):
		default:
			return a, false
		}
	}
	if hosts != 1 || codings > 1 || len(rest) > 0 {
		return a, false
	}
	a.path = string(path)
	a.gzip = codings > 0 && negotiate.Gzip([]string{coding})
	return a, true
}

func equalName(name []byte, want string) bool {
	return len(name) == len(want) && strings.EqualFold(string(name), want)
}

// plainPath reports whether a path is made of unreserved characters and has
// neither empty nor dot segments: it means the same to everybody.
func plainPath(p []byte) bool {
	for i, c := range p {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '~':
		case c == '/' || c == '.':
			if i > 0 && p[i-1] == '/' {
				return false // an empty segment, or one that begins with a dot
			}
		default:
			return false
		}
	}
	return len(p) > 1
}

// plainValue reports whether a header's value has no control characters.
func plainValue(v []byte) bool {
	for _, c := range v {
		if c < ' ' && c != '\t' || c >= 0x7f {
			return false
		}
	}
	return true
}

func plainHost(h []byte) bool {
	for _, c := range h {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == ':' || c == '[' || c == ']') {
			return false
		}
	}
	return len(h) > 0
}
