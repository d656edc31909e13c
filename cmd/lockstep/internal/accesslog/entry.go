package accesslog

import (
	"encoding/json"
	"strconv"
	"time"
)

// An entry is what is known of a request.
type entry struct {
	at             time.Time // it began
	client, host   string
	user           string // name of the reader whose credential the answer depended on
	method, uri    string
	proto          string
	status         int
	bytes          int64 // of the body
	took           time.Duration
	referer, agent string
	kind           string
}

// combinedTime is the layout of times in the combined format.
const combinedTime = "02/Jan/2006:15:04:05 -0700"

// appendCombined appends e in the format of Apache's "combined" log.
func appendCombined(b []byte, e *entry) []byte {
	b = appendField(b, e.client)
	b = append(b, " - "...)
	b = appendField(b, e.user)
	b = append(b, " ["...)
	b = e.at.AppendFormat(b, combinedTime)
	b = append(b, "] \""...)
	b = appendEscaped(b, e.method)
	b = append(b, ' ')
	b = appendEscaped(b, e.uri)
	b = append(b, ' ')
	b = appendEscaped(b, e.proto)
	b = append(b, "\" "...)
	b = strconv.AppendInt(b, int64(e.status), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, e.bytes, 10)
	for _, field := range []string{e.referer, e.agent} {
		b = append(b, " \""...)
		b = appendField(b, field)
		b = append(b, '"')
	}
	return append(b, '\n')
}

// appendField appends a value, or a hyphen where there is none.
func appendField(b []byte, s string) []byte {
	if s == "" {
		return append(b, '-')
	}
	return appendEscaped(b, s)
}

const hexDigits = "0123456789abcdef"

// appendEscaped appends s so that it cannot end its field, or its line, or command a
// terminal that shows it.
func appendEscaped(b []byte, s string) []byte {
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20 || c >= 0x7f:
			b = append(b, '\\', 'x', hexDigits[c>>4], hexDigits[c&15])
		default:
			b = append(b, c)
		}
	}
	return b
}

// A line is an entry as JSON.
type line struct {
	Time      time.Time `json:"time"`
	Client    string    `json:"client,omitempty"`
	User      string    `json:"user,omitempty"`
	Host      string    `json:"host"`
	Method    string    `json:"method"`
	URI       string    `json:"uri"`
	Proto     string    `json:"proto"`
	Status    int       `json:"status"`
	Bytes     int64     `json:"bytes"`
	Duration  float64   `json:"duration_seconds"`
	Kind      string    `json:"kind"`
	Referer   string    `json:"referer,omitempty"`
	UserAgent string    `json:"user_agent,omitempty"`
}

// appendJSON appends e as a JSON object.
func appendJSON(b []byte, e *entry) []byte {
	text, err := json.Marshal(line{e.at.UTC(), e.client, e.user, e.host, e.method, e.uri, e.proto, e.status, e.bytes, e.took.Seconds(), e.kind, e.referer, e.agent})
	if err != nil {
		return b // unreachable: strings and numbers
	}
	return append(append(b, text...), '\n')
}
