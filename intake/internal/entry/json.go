package entry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// A Text is a JSON text (RFC 8259) that is read from front to back by a caller who
// knows what it should contain. It is stricter than encoding/json, so that
// nothing is published that an application did not mean: names are compared
// exactly, text must be UTF-8, and half a surrogate pair is an error.
type Text struct {
	Bytes   []byte
	At      int                      // offset of the first byte not yet read
	Unknown func(name, known string) // called for unknown fields, which are then skipped; nil: they are errors
}

// ErrMalformed reports that a text is not JSON.
var ErrMalformed = errors.New("malformed JSON")

func (t *Text) malformed(format string, args ...any) error {
	return &Error{Offset: t.At, Err: fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))}
}

// unexpected reports the character found in place of what was expected.
func (t *Text) unexpected(want string) error {
	if t.At >= len(t.Bytes) {
		return t.malformed("ends where %s should be", want)
	}
	r, n := utf8.DecodeRune(t.Bytes[t.At:])
	if r == utf8.RuneError && n == 1 {
		return t.malformed("byte 0x%02x where %s should be", t.Bytes[t.At], want)
	}
	return t.malformed("%q where %s should be", r, want)
}

// mistaken reports a value of a different kind than expected.
func (t *Text) mistaken(want string) error {
	if t.At >= len(t.Bytes) {
		return t.unexpected(want)
	}
	got := "a number"
	switch t.Bytes[t.At] {
	case '"':
		got = "a string"
	case '{':
		got = "an object"
	case '[':
		got = "an array"
	case 't', 'f', 'n':
		switch word := t.word(); word {
		case "true", "false":
			got = "a boolean"
		case "null":
			got = word
		default:
			return t.malformed("%.40q where %s should be", word, want)
		}
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
	default:
		return t.unexpected(want)
	}
	return &Error{Offset: t.At, Err: fmt.Errorf("is %s, want %s", got, want)}
}

// word returns the letters that follow.
func (t *Text) word() string {
	n := t.At
	for n < len(t.Bytes) && t.Bytes[n] >= 'a' && t.Bytes[n] <= 'z' {
		n++
	}
	return string(t.Bytes[t.At:n])
}

// Peek skips white space and returns the next byte, or 0 at the end.
func (t *Text) Peek() byte {
	for ; t.At < len(t.Bytes); t.At++ {
		switch c := t.Bytes[t.At]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// End reports an error if anything but white space follows.
func (t *Text) End() error {
	if t.Peek(); t.At < len(t.Bytes) {
		return t.unexpected("the end")
	}
	return nil
}

// null reads a null, if one follows.
func (t *Text) null() bool {
	if t.Peek() == 'n' && len(t.Bytes)-t.At >= 4 && string(t.Bytes[t.At:t.At+4]) == "null" {
		t.At += 4
		return true
	}
	return false
}

// Object reads an object. For each member it calls member, which reads the
// value, unless that is null: a null member is treated as missing. name begins at
// byte at.
func (t *Text) Object(member func(name string, at int) error) error {
	if t.Peek() != '{' {
		return t.mistaken("an object")
	}
	t.At++
	if t.Peek() == '}' {
		t.At++
		return nil
	}
	for {
		if t.Peek() != '"' {
			return t.unexpected("the name of a field")
		}
		at := t.At
		name, err := t.string()
		if err != nil {
			return err
		}
		if t.Peek() != ':' {
			return t.unexpected("a colon")
		}
		t.At++
		if !t.null() {
			if err := member(name, at); err != nil {
				return err
			}
		}
		switch t.Peek() {
		case ',':
			t.At++
		case '}':
			t.At++
			return nil
		default:
			return t.unexpected("a comma or }")
		}
	}
}

// Array reads an array. For each element it calls element, which reads it.
func (t *Text) Array(element func(i int) error) error {
	if t.Peek() != '[' {
		return t.mistaken("an array")
	}
	t.At++
	if t.Peek() == ']' {
		t.At++
		return nil
	}
	for i := 0; ; i++ {
		t.Peek()
		if err := element(i); err != nil {
			return err
		}
		switch t.Peek() {
		case ',':
			t.At++
		case ']':
			t.At++
			return nil
		default:
			return t.unexpected("a comma or ]")
		}
	}
}

// integer reads a number that is written as an integer and is not negative.
func (t *Text) integer() (int64, error) {
	if c := t.Peek(); c != '-' && (c < '0' || c > '9') {
		return 0, t.mistaken("a number")
	}
	start := t.At
	for t.At < len(t.Bytes) && numeric(t.Bytes[t.At]) {
		t.At++
	}
	text := t.Bytes[start:t.At]
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < 0 || text[0] == '-' || len(text) > 1 && text[0] == '0' {
		return 0, &Error{Offset: start, Err: fmt.Errorf("%.40q is no whole number from 0 to 9223372036854775807", text)}
	}
	return n, nil
}

func numeric(c byte) bool {
	return c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'
}

// string reads a string.
func (t *Text) string() (string, error) {
	if t.Peek() != '"' {
		return "", t.mistaken("a string")
	}
	t.At++
	start := t.At
	for t.At < len(t.Bytes) {
		switch c := t.Bytes[t.At]; {
		case c == '"':
			s := t.Bytes[start:t.At]
			if !utf8.Valid(s) {
				t.At = start
				return "", t.malformed("a string that is not UTF-8")
			}
			t.At++
			return string(s), nil
		case c == '\\':
			return t.escaped(start)
		case c < ' ':
			return "", t.unexpected("an escape sequence")
		}
		t.At++
	}
	return "", t.unexpected("the end of a string")
}

// escaped reads the rest of a string from its first escape sequence; it began at
// start.
func (t *Text) escaped(start int) (string, error) {
	out := append([]byte(nil), t.Bytes[start:t.At]...)
	for t.At < len(t.Bytes) {
		c := t.Bytes[t.At]
		switch {
		case c == '"':
			if !utf8.Valid(out) {
				t.At = start
				return "", t.malformed("a string that is not UTF-8")
			}
			t.At++
			return string(out), nil
		case c < ' ':
			return "", t.unexpected("an escape sequence")
		case c == '\\':
			r, err := t.escape()
			if err != nil {
				return "", err
			}
			out = utf8.AppendRune(out, r)
		default:
			out = append(out, c)
			t.At++
		}
	}
	return "", t.unexpected("the end of a string")
}

// escape reads one escape sequence, or two that make one character.
func (t *Text) escape() (rune, error) {
	if t.At+1 >= len(t.Bytes) {
		t.At = len(t.Bytes)
		return 0, t.unexpected("the end of a string")
	}
	switch c := t.Bytes[t.At+1]; c {
	case '"', '\\', '/':
		t.At += 2
		return rune(c), nil
	case 'b', 'f', 'n', 'r', 't':
		t.At += 2
		return map[byte]rune{'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}[c], nil
	case 'u':
	default:
		return 0, t.malformed("an unknown escape sequence")
	}
	r, ok := t.unit(t.At)
	if !ok {
		return 0, t.malformed(`\u without four hex digits`)
	}
	if !utf16.IsSurrogate(r) {
		t.At += 6
		return r, nil
	}
	low, ok := t.unit(t.At + 6)
	r = utf16.DecodeRune(r, low)
	if !ok || r == utf8.RuneError {
		return 0, t.malformed("half a surrogate pair")
	}
	t.At += 12
	return r, nil
}

// unit returns the \uXXXX at byte i.
func (t *Text) unit(i int) (rune, bool) {
	if i+6 > len(t.Bytes) || t.Bytes[i] != '\\' || t.Bytes[i+1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(t.Bytes[i+2:i+6]), 16, 32)
	return rune(n), err == nil
}

// maxJSONDepth limits the nesting of a skipped value.
const maxJSONDepth = 64

// Skip skips a value.
func (t *Text) Skip(depth int) error {
	if depth == maxJSONDepth {
		return t.malformed("more than %d levels", maxJSONDepth)
	}
	switch c := t.Peek(); c {
	case '"':
		_, err := t.string()
		return err
	case '{':
		return t.Object(func(string, int) error { return t.Skip(depth + 1) })
	case '[':
		return t.Array(func(int) error { return t.Skip(depth + 1) })
	case 't', 'f', 'n':
		for _, word := range [...]string{"true", "false", "null"} {
			if bytes.HasPrefix(t.Bytes[t.At:], []byte(word)) {
				t.At += len(word)
				return nil
			}
		}
		return t.malformed("a word other than true, false and null")
	}
	return t.number()
}

// number skips a number.
func (t *Text) number() error {
	start := t.At
	for t.At < len(t.Bytes) && numeric(t.Bytes[t.At]) {
		t.At++
	}
	if t.At == start {
		return t.unexpected("a value")
	}
	if !json.Valid(t.Bytes[start:t.At]) {
		t.At = start
		return t.malformed("a number that is none")
	}
	return nil
}
