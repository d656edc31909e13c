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
	"lockstep/intake/internal/chunks"
	"lockstep/intake/internal/entry"
)

// maxLine is the length in bytes of the longest line that is read, so that a list
// without line ends does not fill the memory.
const maxLine = 1 << 20

var (
	errLongLine = fmt.Errorf("longer than %d bytes", maxLine)
	errCutOff   = errors.New("the last line has no end: the list broke off, or is still being written")
)

// lines reads lines that end in LF or CRLF.
type lines struct {
	r     *bufio.Reader
	buf   []byte
	line  int64     // number of the last line read
	at    int64     // offset of the end of the last line that has a line end
	end   int64     // offset of the end of the last line
	whole bool      // the last line had a line end; true before the first
	sum   hash.Hash // of the bytes read; nil: not computed
	cut   chunks.Cutter
}

func newLines(r io.Reader) *lines { return &lines{r: bufio.NewReaderSize(r, 64<<10), whole: true} }

// next returns the next line, valid until the next call, and whether it has a line
// end. For a line that is too long it returns errLongLine, after which it can be
// called again; at the end it returns io.EOF.
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
	s.end += size
	if s.whole = ended; ended {
		s.at = s.end
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

// A lineParser parses lines as entries. A listing may use several.
type lineParser struct {
	text   entry.Text
	line   int64
	known  map[string]bool // names of the unknown fields found so far
	found  []unknownField  // those of them that were not yet reported
	packer chunks.Packer
}

// An unknownField is a field that entries do not have.
type unknownField struct {
	line  int64
	name  string
	known string // the fields allowed in its place, separated by commas
}

// maxUnknown is how many unknown fields are reported.
const maxUnknown = 100

func newLineParser() *lineParser {
	p := &lineParser{known: make(map[string]bool)}
	p.text.Unknown = p.unknown
	return p
}

// unknown notes an unknown field the first time it occurs.
func (p *lineParser) unknown(name, known string) {
	if p.known[name] || len(p.known) == maxUnknown {
		return
	}
	p.known[name] = true
	p.found = append(p.found, unknownField{p.line, name, known})
}

// takeFound returns the unknown fields noted since the last call.
func (p *lineParser) takeFound() []unknownField {
	found := p.found
	p.found = nil
	return found
}

// unknownReports reports unknown fields, each once.
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
		text := fmt.Sprintf("the field %.40q is unknown and ignored", f.name)
		if near := nearest(f.name, strings.Split(f.known, ", ")); near != "" {
			text += fmt.Sprintf(" (did you mean %s?)", near)
		}
		u.list.Skipped(u.list.Name, &intake.LineError{Line: f.line, Err: errors.New(text)})
	}
}

// parse parses a line as an entry. ok is false for a blank line, which has none.
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

// foreign recognizes by their first bytes files that are not JSON Lines.
func foreign(head []byte) error {
	switch {
	case bytes.HasPrefix(head, []byte("\x1f\x8b")):
		return errors.New("this is a gzip file, not JSON Lines: unpack it first")
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		return errors.New("this is UTF-16, and JSON Lines are UTF-8")
	}
	return nil
}

// nearest returns the one of words for which name may be a misspelling, or "".
func nearest(name string, words []string) string {
	plain := strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(name))
	best, least := "", 3 // edits from which on it counts as a different word
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

// edits returns the edit distance of a and b: how many letters must be changed, added
// or removed to turn b into a.
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
