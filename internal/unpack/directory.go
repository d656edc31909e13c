package unpack

import (
	"bufio"
	"fmt"
	"hash/crc32"
	"io"
	"unicode/utf8"
)

const (
	flagEncrypted = 1 << 0
	flagStreamed  = 1 << 3 // sizes and checksum follow the data
	flagPatched   = 1 << 5
	flagStrong    = 1 << 6
	flagUTF8      = 1 << 11
	flagMasked    = 1 << 13

	methodStored  = 0
	methodDeflate = 8

	extraZip64 = 0x0001
	extraName  = 0x7075 // Info-ZIP's Unicode path

	// The type of a file: the high half of the external attributes, as in Unix, and
	// bits of the low half, as in Windows.
	modeType      = 0o170000
	modeRegular   = 0o100000
	modeDirectory = 0o040000
	winDevice     = 0x40
	winReparse    = 0x400

	directoryBuffer = 64 << 10
)

// read reads the directory that e names.
func (e *end) read(at io.ReaderAt, l Limits) (*Directory, error) {
	start, shift, err := e.place(at)
	if err != nil {
		return nil, err
	}
	if e.at-start > l.Directory {
		return nil, fmt.Errorf("%w: a directory of %d bytes, %d are read", ErrLimit, e.at-start, l.Directory)
	}
	if e.members > uint64(l.Members) {
		return nil, fmt.Errorf("%w: %d members, %d are read", ErrLimit, e.members, l.Members)
	}
	d := &Directory{Start: start}
	// The number of members is used only as far as the bytes suffice for it.
	d.Members = make([]Member, 0, min(int64(e.members), (e.at-start)/centralSize))
	r := reader{Reader: bufio.NewReaderSize(io.NewSectionReader(at, start, e.at-start), directoryBuffer), pos: start}
	for {
		var m Member
		more, err := r.member(&m, shift)
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		if len(d.Members) == l.Members {
			return nil, fmt.Errorf("%w: more than %d members", ErrLimit, l.Members)
		}
		d.Members = append(d.Members, m)
	}
	n := uint64(len(d.Members))
	if n != e.members && (e.long || n&max16 != e.members) { // old programs count modulo 65,536
		return nil, &FormatError{e.at, fmt.Sprintf("it has %d members, its end says %d", n, e.members)}
	}
	d.arrange()
	return d, nil
}

// place determines the beginning of the directory, and the amount by which all
// offsets are shifted because data precede the package.
func (e *end) place(at io.ReaderAt) (start, shift int64, err error) {
	start = e.at - int64(e.size)
	shift = start - int64(e.offset)
	if shift < 0 {
		return 0, 0, &FormatError{e.at, "the directory would begin behind its own end"}
	}
	if shift > 0 {
		// Or there is data between the directory and its end record.
		var sig [4]byte
		if err := readAt(at, sig[:], int64(e.offset)); err != nil {
			return 0, 0, err
		}
		if le.Uint32(sig[:]) == centralSignature {
			return int64(e.offset), 0, nil
		}
	}
	return start, shift, nil
}

// A reader reads the records of a directory.
type reader struct {
	*bufio.Reader
	pos int64 // in the package
	buf []byte
}

// next returns the next n bytes, valid until the next call.
func (r *reader) next(n int) ([]byte, error) {
	if cap(r.buf) < n {
		r.buf = make([]byte, n)
	}
	b := r.buf[:n]
	if _, err := io.ReadFull(r.Reader, b); err != nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil, &FormatError{r.pos, "the directory ends within a record"}
		}
		return nil, err
	}
	r.pos += int64(n)
	return b, nil
}

// member reads one record, or reports that there are no more: another kind of
// record may follow.
func (r *reader) member(m *Member, shift int64) (more bool, err error) {
	sig, err := r.Peek(4)
	if err != nil && err != io.EOF {
		return false, err
	}
	if len(sig) < 4 || le.Uint32(sig) != centralSignature {
		return false, nil
	}
	at := r.pos
	b, err := r.next(centralSize)
	if err != nil {
		return false, err
	}
	flags, attributes := le.Uint16(b[8:]), le.Uint32(b[38:])
	m.Method, m.CRC = le.Uint16(b[10:]), le.Uint32(b[16:])
	packed, size, offset := uint64(le.Uint32(b[20:])), uint64(le.Uint32(b[24:])), uint64(le.Uint32(b[42:]))
	disk := le.Uint16(b[34:])
	name, extra, comment := int(le.Uint16(b[28:])), int(le.Uint16(b[30:])), int(le.Uint16(b[32:]))
	if b, err = r.next(name + extra); err != nil {
		return false, err
	}
	m.raw = string(b[:name])
	m.Name = m.raw
	for x := b[name:]; len(x) >= 4; {
		id, n := le.Uint16(x), int(le.Uint16(x[2:]))
		if n > len(x)-4 {
			break // what follows is not a field
		}
		field := x[4 : 4+n]
		x = x[4+n:]
		switch id {
		case extraZip64:
			for _, v := range []*uint64{&size, &packed, &offset} {
				if *v == max32 && len(field) >= 8 {
					*v, field = le.Uint64(field), field[8:]
				}
			}
		case extraName:
			if s := unicodeName(field, m.raw); s != "" && flags&flagUTF8 == 0 {
				m.Name = s
			}
		}
	}
	if _, err := r.Discard(comment); err != nil {
		return false, &FormatError{r.pos, "the directory ends within a comment"}
	}
	r.pos += int64(comment)
	if packed > uint64(at) || offset > uint64(at-shift) {
		packed, offset = 0, uint64(at-shift) // beyond all valid offsets
		m.blame(flawBeyond)
	}
	m.Packed, m.Size, m.Offset = int64(packed), int64(min(size, 1<<62)), int64(offset)+shift
	m.judge(flags, attributes, disk)
	return true, nil
}

// unicodeName returns the name in an Info-ZIP field, if it belongs to name.
func unicodeName(field []byte, name string) string {
	if len(field) < 6 || field[0] != 1 || le.Uint32(field[1:]) != crc32.ChecksumIEEE([]byte(name)) || !utf8.Valid(field[5:]) {
		return ""
	}
	return string(field[5:])
}
