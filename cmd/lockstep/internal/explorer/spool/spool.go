// Package spool keeps what was read of lists in a temporary file, so that memory does
// not grow with the number of entries, and searches it.
package spool

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"sync"
	"time"
)

// blockRows is how many rows are between two recorded positions: what is read to reach
// a row.
const blockRows = 128

// A Row is an entry of a list, a change, a member of a package, or a difference.
type Row struct {
	URI    string
	Kind   string    // of a change or difference: "created", "missing"; may be empty
	Type   string    // media type; may be empty
	Time   time.Time // of the change, or of the last modification; zero: not stated
	Length int64     // in bytes; -1: not stated
	Detail Detail    // what else is known
}

// A Detail is what the page of a resource shows besides the columns of a table.
type Detail struct {
	Facts []Fact `json:"facts,omitempty"` // in the order in which they are shown
	Links []Link `json:"links,omitempty"`
	Hash  string `json:"hash,omitempty"`
	Path  string `json:"path,omitempty"` // of the file in a mirror or package
}

// A Fact is a property with its value.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// A Link is a typed link.
type Link struct {
	Rel      string `json:"rel"`
	Href     string `json:"href"`
	Type     string `json:"type,omitempty"`
	Length   int64  `json:"length,omitempty"`
	Hash     string `json:"hash,omitempty"`
	Path     string `json:"path,omitempty"`
	Modified string `json:"modified,omitempty"`
	Pri      int    `json:"pri,omitempty"`
}

// A Spool is a temporary file with rows. It is safe for concurrent use.
type Spool struct {
	mu   sync.Mutex // guards end, and writing
	file *os.File
	end  int64
}

// New returns a Spool whose file is in the directory dir, or in the system's one for
// temporary files if dir is empty.
func New(dir string) (*Spool, error) {
	f, err := os.CreateTemp(dir, "lockstep-explore-*")
	if err != nil {
		return nil, fmt.Errorf("create a temporary file: %w", err)
	}
	_ = os.Remove(f.Name()) // where an open file can be removed, nothing is left even after a kill
	return &Spool{file: f}, nil
}

// Close removes the file.
func (s *Spool) Close() error {
	err := s.file.Close()
	if rerr := os.Remove(s.file.Name()); rerr != nil && !errors.Is(rerr, os.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return err
}

// A Segment is the rows of one part of a list.
type Segment struct {
	Rows   int
	end    int64
	blocks []int64 // the position of every blockRows-th row
}

// Write stores the rows that fill adds, as one Segment. If fill fails, they are
// discarded. Segments are written one after the other.
func (s *Spool) Write(fill func(add func(*Row) error) error) (*Segment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := bufio.NewWriterSize(io.NewOffsetWriter(s.file, s.end), 256<<10)
	seg := &Segment{end: s.end}
	var record []byte
	err := fill(func(r *Row) error {
		var err error
		if record, err = r.append(record[:0]); err != nil {
			return err
		}
		if seg.Rows%blockRows == 0 {
			seg.blocks = append(seg.blocks, seg.end)
		}
		seg.Rows++
		seg.end += int64(len(record))
		_, err = w.Write(record)
		return err
	})
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		return nil, err
	}
	s.end = seg.end
	return seg, nil
}

// append encodes r behind its length.
func (r *Row) append(b []byte) ([]byte, error) {
	detail := []byte{}
	if len(r.Detail.Facts) > 0 || len(r.Detail.Links) > 0 || r.Detail.Hash != "" || r.Detail.Path != "" {
		var err error
		if detail, err = json.Marshal(&r.Detail); err != nil {
			return nil, err // unreachable: it consists of texts and numbers
		}
	}
	var at int64
	if !r.Time.IsZero() {
		at = r.Time.UnixMicro() + 1
	}
	body := make([]byte, 0, 48+len(r.URI)+len(r.Type)+len(detail))
	body = append(body, hasUpper(r.URI))
	body = binary.AppendVarint(body, at)
	body = binary.AppendVarint(body, r.Length)
	for _, text := range []string{r.Kind, r.Type, r.URI} {
		body = binary.AppendUvarint(body, uint64(len(text)))
		body = append(body, text...)
	}
	body = append(body, detail...)
	return append(binary.AppendUvarint(b, uint64(len(body))), body...), nil
}

// hasUpper returns 1 if a text has capital letters, and 0 otherwise: a search in any case
// converts only those that have some.
func hasUpper(text string) byte {
	for i := range len(text) {
		if text[i] >= 'A' && text[i] <= 'Z' {
			return 1
		}
	}
	return 0
}

// A raw is a row as it is stored; its bytes are valid until the next one is read.
type raw struct {
	upper           bool // the URI has capital letters
	at, length      int64
	kind, mime, uri []byte
	detail          []byte
}

var errSpool = errors.New("the temporary file was changed by another program")

// parse decodes a record without its length.
func (r *raw) parse(b []byte) error {
	if len(b) == 0 {
		return errSpool
	}
	r.upper = b[0] != 0
	b = b[1:]
	var n int
	if r.at, n = binary.Varint(b); n <= 0 {
		return errSpool
	}
	b = b[n:]
	if r.length, n = binary.Varint(b); n <= 0 {
		return errSpool
	}
	b = b[n:]
	for _, text := range []*[]byte{&r.kind, &r.mime, &r.uri} {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return errSpool
		}
		*text = b[n : n+int(size)]
		b = b[n+int(size):]
	}
	r.detail = b
	return nil
}

// row copies r.
func (r *raw) row() (Row, error) {
	row := Row{URI: string(r.uri), Kind: string(r.kind), Type: string(r.mime), Length: r.length}
	if r.at != 0 {
		row.Time = time.UnixMicro(r.at - 1).UTC()
	}
	if len(r.detail) > 0 {
		if err := json.Unmarshal(r.detail, &row.Detail); err != nil {
			return row, errSpool
		}
	}
	return row, nil
}

// raws yields the rows of seg with numbers from first up to, not including, end.
func (s *Spool) raws(seg *Segment, first, end int) iter.Seq2[int, *raw] {
	return func(yield func(int, *raw) bool) {
		if end = min(end, seg.Rows); first >= end {
			return
		}
		size := 256 << 10
		if end-first <= 4*blockRows {
			size = 32 << 10
		}
		in := window{file: s.file, at: seg.blocks[first/blockRows], end: seg.end, buf: make([]byte, 0, size)}
		var r raw
		for n := first / blockRows * blockRows; n < end; n++ {
			record := in.next()
			if record == nil || n >= first && r.parse(record) != nil || n >= first && !yield(n, &r) {
				return
			}
		}
	}
}

// A window is the part of the file that is in memory.
type window struct {
	file    *os.File
	at, end int64 // what follows the window
	buf     []byte
	pos     int // of the next record in buf
}

// next returns the next record without its length; nil if there is none.
func (w *window) next() []byte {
	for {
		size, n := binary.Uvarint(w.buf[w.pos:])
		if n > 0 && size <= uint64(len(w.buf)-w.pos-n) {
			record := w.buf[w.pos+n : w.pos+n+int(size)]
			w.pos += n + int(size)
			return record
		}
		if n < 0 || size > uint64(w.end) || !w.fill(int(size)+binary.MaxVarintLen64) {
			return nil
		}
	}
}

// fill reads more, so that at least size bytes are in the window if there are as many,
// and reports whether there were any.
func (w *window) fill(size int) bool {
	rest := copy(w.buf[:cap(w.buf)], w.buf[w.pos:])
	if cap(w.buf) < size {
		w.buf = append(make([]byte, 0, 2*size), w.buf[:rest]...)
	}
	w.pos = 0
	more := min(int64(cap(w.buf)-rest), w.end-w.at)
	n, err := w.file.ReadAt(w.buf[rest:rest+int(more)], w.at)
	w.buf, w.at = w.buf[:rest+n], w.at+int64(n)
	return n > 0 && (err == nil || errors.Is(err, io.EOF))
}

// Row returns a row of a segment by its number; ok is false if there is none.
func (s *Spool) Row(seg *Segment, n int) (row Row, ok bool) {
	for _, r := range s.raws(seg, n, n+1) {
		row, err := r.row()
		return row, err == nil
	}
	return row, false
}

// A Filter selects rows. The zero value selects all.
type Filter struct {
	Text string    // in the URI, in any case
	URI  string    // exactly this one
	Kind string    // exactly
	Type string    // the media type, or its beginning if it ends in a slash; NoType selects rows without one
	From time.Time // of Time; zero: all
	To   time.Time // before this one
}

// NoType as a Filter's Type selects rows whose media type is not stated.
const NoType = "none"

// IsZero reports whether f selects all rows.
func (f *Filter) IsZero() bool { return *f == Filter{} }

// A matcher is a prepared Filter.
type matcher struct {
	Filter
	text, lower []byte
	from, to    int64
}

func newMatcher(f Filter) *matcher {
	m := &matcher{Filter: f, text: bytes.ToLower([]byte(f.Text))}
	if !f.From.IsZero() {
		m.from = f.From.UnixMicro() + 1
	}
	if !f.To.IsZero() {
		m.to = f.To.UnixMicro() + 1
	}
	return m
}

func (m *matcher) matches(r *raw) bool {
	switch {
	case m.URI != "" && m.URI != string(r.uri), m.Kind != "" && m.Kind != string(r.kind),
		m.from != 0 && (r.at == 0 || r.at < m.from), m.to != 0 && (r.at == 0 || r.at >= m.to), !m.matchesType(r.mime):
		return false
	case len(m.text) == 0:
		return true
	case !r.upper:
		return bytes.Contains(r.uri, m.text)
	}
	m.lower = m.lower[:0]
	for _, c := range r.uri {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		m.lower = append(m.lower, c)
	}
	return bytes.Contains(m.lower, m.text)
}

func (m *matcher) matchesType(mime []byte) bool {
	switch t := m.Type; {
	case t == "":
		return true
	case t == NoType:
		return len(mime) == 0
	case t[len(t)-1] == '/':
		return bytes.HasPrefix(mime, []byte(t))
	default:
		base, _, _ := bytes.Cut(mime, []byte(";"))
		return string(bytes.TrimSpace(base)) == t || string(mime) == t
	}
}

// Numbered is a row with its number in its segment.
type Numbered struct {
	N int
	Row
}

// Forward returns up to limit rows of seg that f selects, from number first on.
func (s *Spool) Forward(seg *Segment, first int, f Filter, limit int) []Numbered {
	var found []Numbered
	m := newMatcher(f)
	end := seg.Rows
	if f.IsZero() {
		end = min(end, first+limit)
	}
	for n, r := range s.raws(seg, first, end) {
		if len(found) == limit {
			break
		}
		if m.matches(r) {
			if row, err := r.row(); err == nil {
				found = append(found, Numbered{n, row})
			}
		}
	}
	return found
}

// Backward returns up to limit rows of seg that f selects, the last ones before number
// end, in their order.
func (s *Spool) Backward(seg *Segment, end int, f Filter, limit int) []Numbered {
	var found []Numbered
	m := newMatcher(f)
	const stride = 16 * blockRows
	for end = min(end, seg.Rows); end > 0 && len(found) < limit; {
		first := max(0, (end-1)/stride*stride)
		if f.IsZero() {
			first = max(0, end-limit)
		}
		var some []Numbered
		for n, r := range s.raws(seg, first, end) {
			if m.matches(r) {
				if row, err := r.row(); err == nil {
					some = append(some, Numbered{n, row})
				}
			}
		}
		found = append(some, found...)
		end = first
	}
	return found[max(0, len(found)-limit):]
}

// Search returns up to limit rows of seg that f selects, from number first on, and how
// many it selects in all, and before first.
func (s *Spool) Search(seg *Segment, first int, f Filter, limit int) (found []Numbered, total, before int) {
	m := newMatcher(f)
	for n, r := range s.raws(seg, 0, seg.Rows) {
		if !m.matches(r) {
			continue
		}
		total++
		switch {
		case n < first:
			before++
		case len(found) < limit:
			if row, err := r.row(); err == nil {
				found = append(found, Numbered{n, row})
			}
		}
	}
	return found, total, before
}

// Last stores the last row of seg with each of the URIs in found.
func (s *Spool) Last(seg *Segment, uris map[string]bool, found map[string]Row) {
	for _, r := range s.raws(seg, 0, seg.Rows) {
		if uris[string(r.uri)] {
			if row, err := r.row(); err == nil {
				found[row.URI] = row
			}
		}
	}
}
