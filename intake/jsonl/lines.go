package jsonl

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"lockstep/intake"
	"lockstep/intake/internal/entry"
)

// maxLine is the longest line that is read: a list without line ends must not
// fill the memory.
const maxLine = 1 << 20

var (
	errLongLine = fmt.Errorf("longer than %d bytes", maxLine)
	errCutOff   = errors.New("the last line has no end: the list broke off, or is still being written")
)

// lines reads lines, however they end.
type lines struct {
	r     *bufio.Reader
	buf   []byte
	line  int64     // number of the last line read
	at    int64     // where it ended; what has no line end does not count
	whole bool      // it had an end; true before the first
	sum   hash.Hash // of what was read; nil: nobody asks
}

func newLines(r io.Reader) *lines { return &lines{r: bufio.NewReaderSize(r, 64<<10), whole: true} }

// next returns the next line, valid until the one after, and whether there is a
// line end behind it. Of a line that is too long it returns errLongLine, and can
// go on; at the end io.EOF.
func (s *lines) next() (text []byte, ended bool, err error) {
	s.buf = s.buf[:0]
	size, long := int64(0), false
	for !ended {
		part, err := s.r.ReadSlice('\n')
		if s.sum != nil {
			_, _ = s.sum.Write(part) // never fails
		}
		size += int64(len(part))
		ended = err == nil
		if long = long || len(s.buf)+len(part) > maxLine+2; !long {
			if ended && len(s.buf) == 0 {
				text = part
			} else {
				s.buf = append(s.buf, part...)
				text = s.buf
			}
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			if size == 0 || !errors.Is(err, io.EOF) {
				return nil, false, err
			}
			break
		}
	}
	s.line++
	if s.whole = ended; ended {
		s.at += size
	}
	if text = trimEnd(text); long || len(text) > maxLine {
		return nil, ended, errLongLine
	}
	return text, ended, nil
}

// trimEnd cuts off the line end.
func trimEnd(b []byte) []byte {
	b = bytes.TrimSuffix(b, []byte("\n"))
	return bytes.TrimSuffix(b, []byte("\r"))
}

// A lineParser makes entries of lines. Several may work for one listing.
type lineParser struct {
	text  entry.Text
	line  int64
	known map[string]bool // the unknown fields that were met
	found []unknownField  // of these, those not told of yet
}

// An unknownField is one nobody knows.
type unknownField struct {
	line  int64
	name  string
	known string // what could stand in its place
}

// maxUnknown is how many unknown fields are told of.
const maxUnknown = 100

func newLineParser() *lineParser {
	p := &lineParser{known: make(map[string]bool)}
	p.text.Unknown = p.unknown
	return p
}

// unknown notes a field nobody knows, the first time it is met.
func (p *lineParser) unknown(name, known string) {
	if p.known[name] || len(p.known) == maxUnknown {
		return
	}
	p.known[name] = true
	p.found = append(p.found, unknownField{p.line, name, known})
}

// takeFound returns what was noted since the last time.
func (p *lineParser) takeFound() []unknownField {
	found := p.found
	p.found = nil
	return found
}

// unknownReports reports fields that no entry has, each once.
type unknownReports struct {
	list *intake.Listing
	seen map[string]bool
}

func (u *unknownReports) add(found []unknownField) {
	for _, f := range found {
		if u.seen[f.name] || len(u.seen) == maxUnknown {
			continue
		}
		if u.seen == nil {
			u.seen = make(map[string]bool)
		}
		u.seen[f.name] = true
		text := fmt.Sprintf("the field %.40q is unknown and passed over", f.name)
		if near := nearest(f.name, strings.Split(f.known, ", ")); near != "" {
			text += fmt.Sprintf(" (did you mean %s?)", near)
		}
		u.list.Skipped(u.list.Name, &intake.LineError{Line: f.line, Err: errors.New(text)})
	}
}

// parse makes an entry of a line, if there is one in it. A blank line has none.
func (p *lineParser) parse(line int64, text []byte) (e entry.Entry, ok bool, err error) {
	if line == 1 {
		if err := foreign(text); err != nil {
			return entry.Entry{}, false, err
		}
		text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	}
	if len(bytes.TrimLeft(text, " \t\r")) == 0 {
		return entry.Entry{}, false, nil
	}
	p.text.Bytes, p.text.At, p.line = text, 0, line
	e, err = p.text.Entry()
	if err == nil {
		err = p.text.End()
	}
	if err == nil && e.Update.URI == "" {
		err = &entry.Error{Field: "uri", Err: entry.ErrMissing}
	}
	if err != nil {
		return entry.Entry{}, false, &intake.LineError{Line: line, Err: err}
	}
	return e, true, nil
}

// foreign recognizes what is no JSON Lines by its first bytes.
func foreign(head []byte) error {
	switch {
	case bytes.HasPrefix(head, []byte("\x1f\x8b")):
		return errors.New("this is a gzip file, not JSON Lines: unpack it first")
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		return errors.New("this is UTF-16, and JSON Lines are UTF-8")
	}
	return nil
}

// nearest returns the one of words that name may have been meant for, or "".
func nearest(name string, words []string) string {
	plain := strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(name))
	best, least := "", 3 // edits beyond which it is another word
	for _, w := range words {
		d := edits(plain, w)
		if strings.HasPrefix(plain, w) && len(w) > 2 || plain+"s" == w {
			d = min(d, 1)
		}
		if d < least && d < len(w) {
			best, least = w, d
		}
	}
	return best
}

// edits counts the letters to change, add or leave out that make a of b.
func edits(a, b string) int {
	if len(a) > 40 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
