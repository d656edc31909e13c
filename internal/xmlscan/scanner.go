package xmlscan

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// bufferBytes is the usual initial size of the window through which a document is
// read. It grows, up to the limit of a token, only for one that does not fit.
// inputBytes is that of the buffer in front of it.
const (
	bufferBytes = 128 << 10
	inputBytes  = 32 << 10
)

// minRead is the minimum free space in the window for a read: a decoder may
// need space for a few characters.
const minRead = 64

// A Scanner splits a document into tags; [New] creates one. It is for one
// goroutine, and must not be copied after its first use. Errors are
// *[SyntaxError], or what the underlying reader returned; after an error the
// state is undefined.
//
// It holds a window of the document in which all bytes up to end are known to be
// characters that XML allows, so that later steps can search in bulk for the few
// relevant bytes.
//
// A token is parsed as a whole: if the window ends inside it, more is read and
// it is parsed again, each time with at least twice as much.
type Scanner struct {
	src      io.Reader
	in       io.Reader // src as UTF-8
	encoding string
	opened   bool

	namespaces  []string
	assumed     []assumption
	assuming    bool // some of these are used
	window      int
	maxBytes    int64
	maxToken    int
	maxDepth    int
	html        error
	notDocument error

	buf  []byte
	pos  int   // bytes before it were processed
	end  int   // characters before it were checked
	raw  int   // bytes before it were read
	bad  error // error of the byte at end
	last error // error after raw

	dropped   int64 // bytes that have left the window
	counted   int   // bytes in the window whose line ends were counted
	lines     int   // line ends before counted
	lineStart int64 // beginning of the line that counted is in

	names    []byte // names of the open elements, one after the other
	stack    []frame
	bindings []binding
	own      int    // index of the first binding of the current tag
	nsText   []byte // prefixes and namespaces of the bindings

	// The start tag at which Next stopped, valid until the next call.
	Local []byte // its name without the prefix
	Space Space
	Attrs []Attr

	tag   int    // its position in the window
	abuf  []byte // decoded values of Attrs
	empty bool   // an empty-element tag: its end follows
	taken capture

	collect  int  // depth at which text is kept; 0 for none
	clips    bool // too much text is no error: what exceeds the limit is not kept
	solid    bool // there was text that is not white space
	text     []byte
	begun    bool // the root was read
	declared bool // the document begins with an XML declaration
	doctype  bool
}

// A frame is an open element.
type frame struct {
	name     int32 // position of its name in names
	bindings int32 // number of bindings before it
	nsText   int32
}

// open fills the window for the first time.
func (s *Scanner) open() error {
	in, encoding, err := openInput(s.src, min(s.window, inputBytes), s.notDocument)
	if err != nil {
		return s.inputError(err)
	}
	s.in, s.encoding, s.opened = in, encoding, true
	s.buf = make([]byte, s.window)
	return nil
}

// more reads on, so that the token at pos can be parsed again.
func (s *Scanner) more() error {
	have := s.end - s.pos
	switch {
	case s.bad != nil:
		s.pos = s.end
		return s.Errorf("%w", s.bad)
	case s.last == io.EOF && s.end == s.raw:
		return io.EOF
	case s.last == io.EOF:
		s.pos = s.end
		return s.Errorf("a character of UTF-8 is cut off: %w", io.ErrUnexpectedEOF)
	case s.last != nil:
		return s.inputError(s.last)
	case have > s.maxToken:
		return s.Errorf("%w: a tag, text or comment of more than %d bytes", ErrLimit, s.maxToken)
	}
	s.slide()
	if err := s.overCapture(); err != nil {
		return err
	}
	if size := len(s.buf); 2*have+minRead > size {
		for 2*have+minRead > size {
			size *= 2
		}
		s.buf = append(make([]byte, 0, size), s.buf[:s.raw]...)[:size]
	}
	for empty := 0; s.end <= 2*have && s.last == nil && s.bad == nil; {
		n, err := s.in.Read(s.buf[s.raw:])
		s.raw, s.last = s.raw+n, err
		if s.dropped+int64(s.raw) > s.maxBytes {
			return s.Errorf("%w: a document of more than %d bytes", ErrLimit, s.maxBytes)
		}
		if n > 0 {
			empty = 0
		} else if empty++; empty > 100 && err == nil {
			s.last = io.ErrNoProgress
		}
		n, s.bad = checkChars(s.buf[s.end:s.raw])
		s.end += n
	}
	return nil
}

// slide moves unprocessed bytes to the front of the window.
func (s *Scanner) slide() {
	if s.taken.on {
		s.taken.kept = append(s.taken.kept, s.buf[s.taken.from:s.pos]...)
		s.taken.from = 0
	}
	s.countLines()
	s.counted = 0
	s.dropped += int64(s.pos)
	copy(s.buf, s.buf[s.pos:s.raw])
	s.end, s.raw, s.pos = s.end-s.pos, s.raw-s.pos, 0
}

// Offset returns how many bytes of the document have been processed.
func (s *Scanner) Offset() int64 { return s.dropped + int64(s.pos) }

// Position returns the position after what was read last, from 1; the column
// counts bytes of the text in UTF-8.
func (s *Scanner) Position() (line, column int) {
	s.countLines()
	return 1 + s.lines, int(s.Offset()-s.lineStart) + 1
}

// countLines counts the line ends before pos, each once, so that a caller that
// needs the position of every entry does not scan the whole window each time.
func (s *Scanner) countLines() {
	if s.pos <= s.counted {
		return
	}
	fresh := s.buf[s.counted:s.pos]
	if i := bytes.LastIndexByte(fresh, '\n'); i >= 0 {
		s.lines += bytes.Count(fresh, []byte{'\n'})
		s.lineStart = s.dropped + int64(s.counted+i) + 1
	}
	s.counted = s.pos
}

// Errorf returns a SyntaxError at the current position.
func (s *Scanner) Errorf(format string, args ...any) error {
	line, column := s.Position()
	return &SyntaxError{line, column, fmt.Errorf(format, args...)}
}

// errorAt returns a SyntaxError at p.
func (s *Scanner) errorAt(p int, format string, args ...any) error {
	s.pos = p
	return s.Errorf(format, args...)
}

// eof returns err, or the error for a document that must not end here.
func (s *Scanner) eof(err error) error {
	if err == io.EOF {
		s.pos = s.end
		return s.Errorf("the document is cut off: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// inputError returns err unchanged if it came from the underlying reader, and
// as a SyntaxError if the bytes are invalid.
func (s *Scanner) inputError(err error) error {
	var corrupt flate.CorruptInputError
	for _, fault := range []error{gzip.ErrHeader, gzip.ErrChecksum, io.ErrUnexpectedEOF, errEncoding, s.notDocument} {
		if errors.Is(err, fault) {
			return s.Errorf("%w", err)
		}
	}
	if errors.As(err, &corrupt) {
		return s.Errorf("decompress: %w", err)
	}
	return err
}

// checkChars returns how many bytes at the beginning of b are complete
// characters that XML allows, and the error of the next one, unless it is just
// incomplete.
func checkChars(b []byte) (n int, bad error) {
	for {
		n += unsure.Index(b[n:])
		for stop := min(n+16, len(b)); n < stop; {
			c := b[n]
			if c < utf8.RuneSelf {
				if c < ' ' && classes[c]&classSpace == 0 {
					return n, fmt.Errorf("character %#x is not allowed in XML", c)
				}
				n++
				continue
			}
			if !utf8.FullRune(b[n:]) {
				return n, nil
			}
			r, size := utf8.DecodeRune(b[n:])
			if r == utf8.RuneError && size == 1 {
				return n, fmt.Errorf("byte %#x is not UTF-8", c)
			}
			if r == 0xFFFE || r == 0xFFFF {
				return n, fmt.Errorf("character U+%04X is not allowed in XML", r)
			}
			n += size
		}
		if n >= len(b) {
			return n, nil
		}
	}
}
