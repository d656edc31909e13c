package front

import (
	"bytes"
	"strings"

	"lockstep/internal/negotiate"
)

// A request is one that the front may answer.
type request struct {
	path string // as it was sent
	gzip bool   // see negotiate.Gzip
}

var headersEnd = []byte("\r\n\r\n")

// headerEnd returns the length of the header of a request, 0 if it is
// incomplete.
func headerEnd(text []byte) int {
	i := bytes.Index(text, headersEnd)
	if i < 0 {
		return 0
	}
	return i + len(headersEnd)
}

const requestPrefix = "GET /"

// plausible reports whether text can be the start of a request for the front.
func plausible(text []byte) bool {
	n := min(len(text), len(requestPrefix))
	return string(text[:n]) == requestPrefix[:n]
}

// parseRequest reads the header of a request (RFC 9112). It accepts only what
// is unambiguous: HTTP/1.1, a path of plain characters, one Host, and headers
// that do not affect the answer, each in one line. ok is false for all other
// requests, also for valid ones.
func parseRequest(text []byte) (r request, ok bool) {
	line, rest, found := bytes.Cut(text, []byte("\r\n"))
	if !found || !bytes.HasPrefix(line, []byte("GET /")) || !bytes.HasSuffix(line, []byte(" HTTP/1.1")) {
		return r, false
	}
	path := line[len("GET ") : len(line)-len(" HTTP/1.1")]
	if !plainPath(path) {
		return r, false
	}
	hosts, codings := 0, 0
	var coding string
	for {
		line, rest, found = bytes.Cut(rest, []byte("\r\n"))
		if !found {
			return r, false
		}
		if len(line) == 0 {
			break
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || !plainValue(value) {
			return r, false
		}
		value = bytes.Trim(value, " \t")
		switch {
		case equalName(name, "host"):
			if hosts++; !plainHost(value) {
				return r, false
			}
		case equalName(name, "accept-encoding"):
			codings++
			coding = string(value)
		case equalName(name, "connection"):
			if !bytes.EqualFold(value, []byte("keep-alive")) {
				return r, false
			}
		case equalName(name, "user-agent"), equalName(name, "accept"), equalName(name, "accept-language"),
			equalName(name, "cache-control"), equalName(name, "pragma"):
		default:
			return r, false
		}
	}
	if hosts != 1 || codings > 1 || len(rest) > 0 {
		return r, false
	}
	r.path = string(path)
	r.gzip = codings > 0 && negotiate.Gzip([]string{coding})
	return r, true
}

func equalName(name []byte, want string) bool {
	return len(name) == len(want) && strings.EqualFold(string(name), want)
}

// plainPath reports whether a path consists of unreserved characters and has
// neither empty nor dot segments: it has only one meaning.
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

// plainValue reports whether a header's value has printable ASCII characters
// and tabs only.
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
