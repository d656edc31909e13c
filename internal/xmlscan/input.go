package xmlscan

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// sniffBytes is how much of a document is examined to determine its encoding.
const sniffBytes = 512

var errEncoding = errors.New("unsupported encoding")

// openInput returns the document in r as UTF-8 without a byte order mark,
// decompressed if it is a gzip file, and its encoding. It relies on the bytes,
// not on any declaration (RS-IDX-08, RS-XML-01). It buffers size bytes.
func openInput(r io.Reader, size int, notDocument error) (_ io.Reader, encoding string, err error) {
	br := bufio.NewReaderSize(r, max(size, sniffBytes))
	head, err := peek(br)
	if err != nil {
		return nil, "", err
	}
	if bytes.HasPrefix(head, []byte{0x1f, 0x8b}) {
		zr, err := gzip.NewReader(br)
		if err != nil {
			return nil, "", fmt.Errorf("decompress: %w", err)
		}
		br = bufio.NewReaderSize(zr, inputBytes)
		if head, err = peek(br); err != nil {
			return nil, "", err
		}
		if bytes.HasPrefix(head, []byte{0x1f, 0x8b}) {
			return nil, "", fmt.Errorf("%w: a gzip file inside a gzip file", notDocument)
		}
	}
	return decode(br, head)
}

// peek returns the beginning of br's content, shorter only at the end.
func peek(br *bufio.Reader) ([]byte, error) {
	head, err := br.Peek(sniffBytes)
	if err != nil && err != io.EOF {
		return nil, err
	}
	return head, nil
}

// decode returns br as UTF-8.
func decode(br *bufio.Reader, head []byte) (io.Reader, string, error) {
	mark := func(b ...byte) bool { return bytes.HasPrefix(head, b) }
	skip := 0
	encoding := ""
	switch {
	case mark(0, 0, 0xfe, 0xff), mark(0xff, 0xfe, 0, 0), mark(0, 0, 0, '<'), mark('<', 0, 0, 0):
		return nil, "", fmt.Errorf("%w UTF-32", errEncoding)
	case mark(0xef, 0xbb, 0xbf):
		skip, encoding = 3, "utf-8"
	case mark(0xfe, 0xff):
		skip, encoding = 2, "utf-16be"
	case mark(0xff, 0xfe):
		skip, encoding = 2, "utf-16le"
	case mark(0, '<'):
		encoding = "utf-16be"
	case mark('<', 0):
		encoding = "utf-16le"
	default:
		encoding = declaredEncoding(head)
	}
	if _, err := br.Discard(skip); err != nil {
		return nil, "", err
	}
	switch encoding {
	case "utf-8":
		return br, encoding, nil
	case "utf-16be":
		return &utf16Reader{r: br, order: binary.BigEndian}, encoding, nil
	case "utf-16le":
		return &utf16Reader{r: br, order: binary.LittleEndian}, encoding, nil
	case "iso-8859-1":
		return &byteReader{r: br, last: 0xff}, encoding, nil
	case "us-ascii":
		return &byteReader{r: br, last: 0x7f}, encoding, nil
	}
	return nil, "", fmt.Errorf("%w %q", errEncoding, Clip(encoding))
}

// declaredEncoding returns the encoding an XML declaration names, in the
// spelling used here, or utf-8.
func declaredEncoding(head []byte) string {
	if !bytes.HasPrefix(head, []byte("<?xml")) {
		return "utf-8"
	}
	decl, _, _ := bytes.Cut(head, []byte("?>"))
	_, rest, found := bytes.Cut(decl, []byte("encoding"))
	rest = bytes.TrimLeft(rest, " \t\r\n=")
	if !found || len(rest) == 0 || rest[0] != '"' && rest[0] != '\'' {
		return "utf-8"
	}
	name, _, found := bytes.Cut(rest[1:], rest[:1])
	if !found {
		return "utf-8" // the Scanner reports the error
	}
	return canonicalEncoding(string(name))
}

// canonicalEncoding returns the canonical name of a supported encoding.
func canonicalEncoding(name string) string {
	switch name = strings.ToLower(name); name {
	case "utf8":
		return "utf-8"
	case "ascii", "iso646-us", "ansi_x3.4-1968":
		return "us-ascii"
	case "latin1", "latin-1", "iso_8859-1", "iso8859-1", "l1":
		return "iso-8859-1"
	}
	return name
}

// encodingAgrees reports whether a document found to be in one encoding may
// declare the other.
func encodingAgrees(found, declared string) bool {
	declared = canonicalEncoding(declared)
	return found == declared || declared == "utf-16" && strings.HasPrefix(found, "utf-16") ||
		found == "utf-8" && declared == "us-ascii"
}

// A byteReader converts a single-byte encoding to UTF-8.
type byteReader struct {
	r    io.Reader
	last byte // highest valid byte
	buf  [4096]byte
}

func (b *byteReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(b.buf[:min(len(b.buf), len(p)/2)])
	out := p[:0]
	for _, c := range b.buf[:n] {
		switch {
		case c < utf8.RuneSelf:
			out = append(out, c)
		case c > b.last:
			return len(out), fmt.Errorf("%w: byte %#x in a document in US-ASCII", errEncoding, c)
		default:
			out = append(out, 0xc0|c>>6, 0x80|c&0x3f)
		}
	}
	return len(out), err
}

// A utf16Reader converts UTF-16 to UTF-8.
type utf16Reader struct {
	r     io.Reader
	order binary.ByteOrder
	buf   [4096]byte
	n     int // bytes in buf that wait for the rest of their character
}

func (u *utf16Reader) Read(p []byte) (int, error) {
	room := min(len(u.buf), len(p)/3*2)
	if room < 4 {
		return 0, io.ErrShortBuffer
	}
	n, err := u.r.Read(u.buf[u.n:room])
	n += u.n
	out, i := p[:0], 0
	for ; i+2 <= n; i += 2 {
		r := rune(u.order.Uint16(u.buf[i:]))
		if utf16.IsSurrogate(r) {
			if i+4 > n {
				break
			}
			if r = utf16.DecodeRune(r, rune(u.order.Uint16(u.buf[i+2:]))); r == utf8.RuneError {
				return len(out), fmt.Errorf("%w: half a surrogate pair in UTF-16", errEncoding)
			}
			i += 2
		}
		out = utf8.AppendRune(out, r)
	}
	u.n = copy(u.buf[:], u.buf[i:n])
	if err == io.EOF && u.n > 0 {
		err = io.ErrUnexpectedEOF
	}
	return len(out), err
}
