package eventstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
)

const (
	// readBuffer is how much is read from the connection at a time.
	readBuffer = 32 << 10

	// maxLine and maxData limit how much of one event is in memory.
	maxLine = 8 << 20
	maxData = 8 << 20

	// maxID limits types and IDs: an ID is sent back in a header.
	maxID = 1024
)

// An Event is a server-sent event.
type Event struct {
	Type string // the field "event"
	ID   string // empty if the event has none that a header could carry
	Data []byte
}

// A Reader reads server-sent events (WHATWG HTML, 9.2.6).
type Reader struct {
	in      *bufio.Reader
	line    []byte
	begun   bool          // the first line was read
	afterCR bool          // the previous line ended with CR
	retry   time.Duration // as the stream said last
}

// NewReader returns a Reader that reads from r.
func NewReader(r io.Reader) *Reader { return &Reader{in: bufio.NewReaderSize(r, readBuffer)} }

var (
	errTooLarge = errors.New("an event is too large")
	utf8Mark    = []byte("\xef\xbb\xbf")
)

// Retry returns how long the stream asks clients to wait before they open it
// again, or 0 if it has not said so.
func (r *Reader) Retry() time.Duration { return r.retry }

// Next returns the next event that has a type or data. An event that was cut
// off is not returned; the error is the one of the underlying reader.
func (r *Reader) Next() (Event, error) {
	var e Event
	hasData := false
	for {
		line, err := r.readLine()
		if err != nil {
			return e, err
		}
		if len(line) == 0 {
			if e.Type == "" && !hasData {
				continue
			}
			e.Data = bytes.TrimSuffix(e.Data, []byte("\n"))
			return e, nil
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			e.Type = string(value[:min(len(value), maxID)])
		case "id":
			if len(value) <= maxID && bytes.IndexFunc(value, unicode.IsControl) < 0 {
				e.ID = strings.ToValidUTF8(string(value), "")
			}
		case "data":
			if hasData = true; len(e.Data)+len(value)+1 > maxData {
				return e, errTooLarge
			}
			e.Data = append(append(e.Data, value...), '\n')
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 32); err == nil {
				r.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}

// readLine returns the next line without its end, which may be CR, LF or both.
// It is valid until the next call.
func (r *Reader) readLine() ([]byte, error) {
	r.line = r.line[:0]
	for {
		c, err := r.in.ReadByte()
		if err != nil {
			return nil, err
		}
		afterCR := r.afterCR
		if r.afterCR = c == '\r'; afterCR && c == '\n' {
			continue // the second half of CR LF
		}
		if c == '\r' || c == '\n' {
			if !r.begun {
				r.begun = true
				return bytes.TrimPrefix(r.line, utf8Mark), nil
			}
			return r.line, nil
		}
		r.line = append(r.line, c)
		b, _ := r.in.Peek(r.in.Buffered()) // available without waiting
		if i := bytes.IndexAny(b, "\r\n"); i >= 0 {
			b = b[:i]
		}
		if len(r.line)+len(b) > maxLine {
			return nil, errTooLarge
		}
		r.line = append(r.line, b...)
		_, _ = r.in.Discard(len(b)) // no more than is buffered
	}
}
