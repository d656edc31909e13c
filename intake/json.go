package intake

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// A jsonText is a JSON text (RFC 8259) that is read from front to back by who
// knows what should be in it. It is stricter than encoding/json, for what an
// application means is to be published and not what we make of it: names are
// compared exactly, text must be UTF-8, and half a surrogate pair is an error.
type jsonText struct {
	text  []byte
	at    int                      // what is before is read
	extra func(name, known string) // told of fields nobody knows, which are then passed over; nil: they are errors
}

// errJSON is what all texts that are not JSON have in common.
var errJSON = errors.New("malformed JSON")

func (t *jsonText) malformed(format string, args ...any) error {
	return &EntryError{Offset: t.at, Err: fmt.Errorf("%w: %s", errJSON, fmt.Sprintf(format, args...))}
}

// unexpected says what stands where something else was wanted.
func (t *jsonText) unexpected(want string) error {
	if t.at >= len(t.text) {
		return t.malformed("ends where %s should be", want)
	}
	r, n := utf8.DecodeRune(t.text[t.at:])
	if r == utf8.RuneError && n == 1 {
		return t.malformed("byte 0x%02x where %s should be", t.text[t.at], want)
	}
	return t.malformed("%q where %s should be", r, want)
}

// mistaken says that a value is of another kind than the one wanted.
func (t *jsonText) mistaken(want string) error {
	if t.at >= len(t.text) {
		return t.unexpected(want)
	}
	got := "a number"
	switch t.text[t.at] {
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
	return &EntryError{Offset: t.at, Err: fmt.Errorf("is %s, want %s", got, want)}
}

// word returns the letters that come.
func (t *jsonText) word() string {
	n := t.at
	for n < len(t.text) && t.text[n] >= 'a' && t.text[n] <= 'z' {
		n++
	}
	return string(t.text[t.at:n])
}

// peek returns the byte behind white space, or 0 at the end.
func (t *jsonText) peek() byte {
	for ; t.at < len(t.text); t.at++ {
		switch c := t.text[t.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// end sees to it that nothing follows.
func (t *jsonText) end() error {
	if t.peek(); t.at < len(t.text) {
		return t.unexpected("the end")
	}
	return nil
}

// null reads a null, if that is what comes.
func (t *jsonText) null() bool {
	if t.peek() == 'n' && len(t.text)-t.at >= 4 && string(t.text[t.at:t.at+4]) == "null" {
		t.at += 4
		return true
	}
	return false
}

// object reads an object. For each member it calls member, which reads the
// value, unless that is null: a member that is null says nothing. name begins
// at byte at.
func (t *jsonText) object(member func(name string, at int) error) error {
	if t.peek() != '{' {
		return t.mistaken("an object")
	}
	t.at++
	if t.peek() == '}' {
		t.at++
		return nil
	}
	for {
		if t.peek() != '"' {
			return t.unexpected("the name of a field")
		}
		at := t.at
		name, err := t.string()
		if err != nil {
			return err
		}
		if t.peek() != ':' {
			return t.unexpected("a colon")
		}
		t.at++
		if !t.null() {
			if err := member(name, at); err != nil {
				return err
			}
		}
		switch t.peek() {
		case ',':
			t.at++
		case '}':
			t.at++
			return nil
		default:
			return t.unexpected("a comma or }")
		}
	}
}

// array reads an array. For each element it calls element, which reads it.
func (t *jsonText) array(element func(i int) error) error {
	if t.peek() != '[' {
		return t.mistaken("an array")
	}
	t.at++
	if t.peek() == ']' {
		t.at++
		return nil
	}
	for i := 0; ; i++ {
		t.peek()
		if err := element(i); err != nil {
			return err
		}
		switch t.peek() {
		case ',':
			t.at++
		case ']':
			t.at++
			return nil
		default:
			return t.unexpected("a comma or ]")
		}
	}
}

// integer reads a number that is written as an integer and is not negative.
func (t *jsonText) integer() (int64, error) {
	if c := t.peek(); c != '-' && (c < '0' || c > '9') {
		return 0, t.mistaken("a number")
	}
	start := t.at
	for t.at < len(t.text) && numeric(t.text[t.at]) {
		t.at++
	}
	text := t.text[start:t.at]
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < 0 || text[0] == '-' || len(text) > 1 && text[0] == '0' {
		return 0, &EntryError{Offset: start, Err: fmt.Errorf("%.40q is no whole number from 0 to 9223372036854775807", text)}
	}
	return n, nil
}

func numeric(c byte) bool {
	return c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'
}

// string reads a string.
func (t *jsonText) string() (string, error) {
	if t.peek() != '"' {
		return "", t.mistaken("a string")
	}
	t.at++
	start := t.at
	for t.at < len(t.text) {
		switch c := t.text[t.at]; {
		case c == '"':
			s := t.text[start:t.at]
			if !utf8.Valid(s) {
				t.at = start
				return "", t.malformed("a string that is not UTF-8")
			}
			t.at++
			return string(s), nil
		case c == '\\':
			return t.escaped(start)
		case c < ' ':
			return "", t.unexpected("an escape sequence")
		}
		t.at++
	}
	return "", t.unexpected("the end of a string")
}

// escaped goes on with a string from its first escape sequence; it began at
// start.
func (t *jsonText) escaped(start int) (string, error) {
	out := append([]byte(nil), t.text[start:t.at]...)
	for t.at < len(t.text) {
		c := t.text[t.at]
		switch {
		case c == '"':
			if !utf8.Valid(out) {
				t.at = start
				return "", t.malformed("a string that is not UTF-8")
			}
			t.at++
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
			t.at++
		}
	}
	return "", t.unexpected("the end of a string")
}

// escape reads one escape sequence, or two that make one character.
func (t *jsonText) escape() (rune, error) {
	if t.at+1 >= len(t.text) {
		t.at = len(t.text)
		return 0, t.unexpected("the end of a string")
	}
	switch c := t.text[t.at+1]; c {
	case '"', '\\', '/':
		t.at += 2
		return rune(c), nil
	case 'b', 'f', 'n', 'r', 't':
		t.at += 2
		return map[byte]rune{'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}[c], nil
	case 'u':
	default:
		return 0, t.malformed("an unknown escape sequence")
	}
	r, ok := t.unit(t.at)
	if !ok {
		return 0, t.malformed(`\u without four hex digits`)
	}
	if !utf16.IsSurrogate(r) {
		t.at += 6
		return r, nil
	}
	low, ok := t.unit(t.at + 6)
	r = utf16.DecodeRune(r, low)
	if !ok || r == utf8.RuneError {
		return 0, t.malformed("half a surrogate pair")
	}
	t.at += 12
	return r, nil
}

// unit returns the \uXXXX at byte i.
func (t *jsonText) unit(i int) (rune, bool) {
	if i+6 > len(t.text) || t.text[i] != '\\' || t.text[i+1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(t.text[i+2:i+6]), 16, 32)
	return rune(n), err == nil
}

// maxJSONDepth is how deep a value that is passed over may be nested.
const maxJSONDepth = 64

// skip passes over a value.
func (t *jsonText) skip(depth int) error {
	if depth == maxJSONDepth {
		return t.malformed("more than %d levels", maxJSONDepth)
	}
	switch c := t.peek(); c {
	case '"':
		_, err := t.string()
		return err
	case '{':
		return t.object(func(string, int) error { return t.skip(depth + 1) })
	case '[':
		return t.array(func(int) error { return t.skip(depth + 1) })
	case 't', 'f', 'n':
		for _, word := range [...]string{"true", "false", "null"} {
			if bytes.HasPrefix(t.text[t.at:], []byte(word)) {
				t.at += len(word)
				return nil
			}
		}
		return t.malformed("a word other than true, false and null")
	}
	return t.number()
}

// number passes over a number.
func (t *jsonText) number() error {
	start := t.at
	for t.at < len(t.text) && numeric(t.text[t.at]) {
		t.at++
	}
	if t.at == start {
		return t.unexpected("a value")
	}
	if !json.Valid(t.text[start:t.at]) {
		t.at = start
		return t.malformed("a number that is none")
	}
	return nil
}
