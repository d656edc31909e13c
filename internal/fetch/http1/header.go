package http1

import (
	"bytes"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// A header is that of a response.
type header struct {
	status  int
	fields  http.Header
	length  int64 // stated length of the body; -1: none
	chunked bool
	closes  bool // the connection ends with the response
}

// parse parses a header whose lines all end with CR LF, the last of them empty. An
// error is an [UnusualError]: everything that RFC 9112 does not permit, or that
// recipients are known to interpret differently.
func (h *header) parse(b []byte) error {
	end := bytes.IndexByte(b, '\n') - 1
	if err := h.parseStatus(b[:end]); err != nil {
		return err
	}
	// The strings of all fields share one allocation, and so do their slices.
	text := string(b[end+2 : len(b)-2])
	n := strings.Count(text, "\n")
	values := make([]string, n)
	h.fields = make(http.Header, n)
	h.length = -1
	for i := range n {
		line, rest, _ := strings.Cut(text, "\r\n")
		text = rest
		name, value, ok := strings.Cut(line, ":")
		if !ok || !IsToken(name) {
			return &UnusualError{"malformed field name"} // also a folded line
		}
		value = strings.Trim(value, " \t")
		if !IsFieldValue(value) {
			return &UnusualError{"control character in the header"}
		}
		name = textproto.CanonicalMIMEHeaderKey(name)
		hidden, err := h.frame(name, value)
		if err != nil {
			return err
		}
		if hidden {
			continue
		}
		if vs, again := h.fields[name]; again {
			h.fields[name] = append(vs, value)
			continue
		}
		values[i] = value
		h.fields[name] = values[i : i+1 : i+1]
	}
	if h.chunked && (h.length >= 0 || h.closes && b[7] == '0') {
		return &UnusualError{"Transfer-Encoding with Content-Length, or with HTTP/1.0"}
	}
	if h.status < 200 && (h.chunked || h.length >= 0 || h.closes) {
		return &UnusualError{"interim response with a body"}
	}
	if pragma := h.fields["Pragma"]; len(pragma) > 0 && pragma[0] == "no-cache" && h.fields["Cache-Control"] == nil {
		h.fields["Cache-Control"] = []string{"no-cache"} // as net/http does (RFC 9111, 5.4)
	}
	return nil
}

// parseStatus parses a status line.
func (h *header) parseStatus(line []byte) error {
	const example = "HTTP/1.1 200"
	if len(line) < len(example) || string(line[:7]) != example[:7] || line[8] != ' ' || line[7] != '0' && line[7] != '1' ||
		len(line) > len(example) && line[len(example)] != ' ' || !IsFieldValue(string(line)) {
		return &UnusualError{"status line"}
	}
	for _, c := range line[9:12] {
		if c < '0' || c > '9' {
			return &UnusualError{"status line"}
		}
		h.status = 10*h.status + int(c-'0')
	}
	h.closes = line[7] == '0' // whatever it says
	switch {
	case h.status == http.StatusContinue || h.status == http.StatusEarlyHints:
	case h.status < 200 || h.status > 599:
		return &UnusualError{"status " + strconv.Itoa(h.status)}
	}
	return nil
}

// frame interprets the fields that determine where the response ends. hidden means
// that the field concerns the connection alone.
func (h *header) frame(name, value string) (hidden bool, err error) {
	switch name {
	case "Content-Length":
		n, ok := parseLength(value)
		if !ok || h.length >= 0 {
			return false, &UnusualError{"Content-Length"}
		}
		h.length = n
	case "Transfer-Encoding":
		if h.chunked || !strings.EqualFold(value, "chunked") {
			return true, &UnusualError{"Transfer-Encoding"}
		}
		h.chunked = true
		return true, nil
	case "Connection":
		for option := range strings.SplitSeq(value, ",") {
			switch option = strings.Trim(option, " \t"); {
			case strings.EqualFold(option, "close"):
				h.closes = true
			case strings.EqualFold(option, "upgrade"):
				return true, &UnusualError{"Connection: upgrade"}
			}
		}
		return true, nil
	case "Keep-Alive", "Proxy-Connection":
		return true, nil
	case "Trailer":
		return true, checkTrailer(value)
	}
	return false, nil
}

// checkTrailer refuses to take fields that determine the end of a response from its
// trailer.
func checkTrailer(value string) error {
	for name := range strings.SplitSeq(value, ",") {
		switch strings.ToLower(strings.Trim(name, " \t")) {
		case "transfer-encoding", "content-length", "trailer":
			return &UnusualError{"Trailer"}
		}
	}
	return nil
}

// parseLength parses digits: no sign, no list.
func parseLength(s string) (int64, bool) {
	if s == "" || len(s) > 18 {
		return 0, false
	}
	var n int64
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = 10*n + int64(s[i]-'0')
	}
	return n, true
}

// IsToken reports whether s is a token (RFC 9110, 5.6.2).
func IsToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-!#$%&'*+.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}

// IsFieldValue reports whether s has no control characters but tabs.
func IsFieldValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// AppendFields appends the fields of a request to b, in the form and the order in
// which net/http sends them. It reports false if this package cannot send them.
func AppendFields(b []byte, h http.Header) ([]byte, bool) {
	names := make([]string, 0, len(h))
	for name, values := range h {
		switch name {
		case "Host", "Connection", "Content-Length", "Transfer-Encoding", "Trailer", "Te", "Upgrade", "Expect":
			return b, false
		}
		if !IsToken(name) || slices.ContainsFunc(values, func(v string) bool { return !IsFieldValue(v) }) {
			return b, false
		}
		if name != "User-Agent" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if agent := h["User-Agent"]; len(agent) > 0 && agent[0] != "" {
		b = appendField(b, "User-Agent", agent[0])
	} else {
		return b, false // net/http would add its own
	}
	for _, name := range names {
		for _, value := range h[name] {
			b = appendField(b, name, value)
		}
	}
	return b, true
}

func appendField(b []byte, name, value string) []byte {
	b = append(b, name...)
	b = append(b, ": "...)
	b = append(b, strings.Trim(value, " \t")...)
	return append(b, "\r\n"...)
}

// CanSend reports whether host and target can be sent as they are.
func CanSend(host, target string) bool {
	for i := range len(host) {
		if c := host[i]; !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._:[]", c) >= 0) {
			return false
		}
	}
	for i := range len(target) {
		if target[i] <= ' ' || target[i] >= 0x7f {
			return false
		}
	}
	return host != "" && target != "" && target[0] == '/'
}
