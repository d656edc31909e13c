package unpack

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/klauspost/compress/flate"
)

// Open reads the member from local, which begins at Offset. It reads the local
// header, and at most Packed bytes after it. The result yields Size bytes, then
// io.EOF if their checksum is right; any other error is a [*MemberError].
// Closing it does not close local.
//
// A member that is refused is not opened.
func (m *Member) Open(local io.Reader) (io.ReadCloser, error) {
	if reason := m.Refused(); reason != "" {
		return nil, &MemberError{Name: m.Name, Reason: reason}
	}
	if err := m.skipHeader(local); err != nil {
		return nil, err
	}
	c := &content{m: m, packed: io.LimitedReader{R: local, N: m.Packed}}
	c.src = &c.packed
	if m.Method == methodDeflate {
		c.inflate = inflaters.Get().(inflater)
		_ = c.inflate.Reset(&c.packed, nil) // fails only for an invalid dictionary
		c.src = c.inflate
	}
	return c, nil
}

// Bytes is Open for a member that is in memory: b begins at Offset. The content
// is in b if it is stored, otherwise in buf, or in a larger slice.
func (m *Member) Bytes(b, buf []byte) ([]byte, error) {
	if reason := m.Refused(); reason != "" {
		return nil, &MemberError{Name: m.Name, Reason: reason}
	}
	r := bytes.NewReader(b)
	if err := m.skipHeader(r); err != nil {
		return nil, err
	}
	data := b[len(b)-r.Len():]
	if int64(len(data)) < m.Packed {
		return nil, m.broken(io.ErrUnexpectedEOF)
	}
	data = data[:m.Packed]
	if m.Method == methodDeflate {
		var err error
		if data, err = m.inflate(data, buf); err != nil {
			return nil, err
		}
	}
	if crc32.ChecksumIEEE(data) != m.CRC {
		return nil, &MemberError{Name: m.Name, Reason: "its checksum is wrong"}
	}
	return data, nil
}

// inflate decompresses packed data, into buf if it is large enough.
func (m *Member) inflate(data, buf []byte) ([]byte, error) {
	if int64(cap(buf)) < m.Size {
		buf = make([]byte, m.Size)
	}
	buf = buf[:m.Size]
	f := inflaters.Get().(inflater)
	defer putInflater(f)
	_ = f.Reset(bytes.NewReader(data), nil) // fails only for an invalid dictionary
	n, err := io.ReadFull(f, buf)
	switch {
	case err == io.EOF, err == io.ErrUnexpectedEOF:
		return nil, m.shorter(int64(n))
	case err != nil:
		return nil, m.broken(err)
	}
	var more [1]byte
	if err := m.ended(io.ReadFull(f, more[:])); err != nil {
		return nil, err
	}
	return buf, nil
}

func (m *Member) shorter(n int64) error {
	return &MemberError{Name: m.Name, Reason: fmt.Sprintf("it has %d bytes, the directory says %d", n, m.Size)}
}

// ended checks the result of reading beyond the expected end of a deflated
// member.
func (m *Member) ended(n int, err error) error {
	switch {
	case n > 0:
		return &MemberError{Name: m.Name, Reason: "it has more content than the directory says"}
	case err != io.EOF:
		return m.broken(err)
	}
	return nil
}

// skipHeader reads the local header and compares it with the directory.
func (m *Member) skipHeader(r io.Reader) error {
	var h [localSize]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return m.broken(err)
	}
	if le.Uint32(h[:]) != localSignature {
		return &MemberError{Name: m.Name, Reason: "there is no member where the directory says"}
	}
	name, extra := int64(le.Uint16(h[26:])), int64(le.Uint16(h[28:]))
	if localSize+name+extra+m.Packed > m.space {
		return &MemberError{Name: m.Name, Reason: flaws[flawOverlap]}
	}
	buf := make([]byte, name)
	if _, err := io.ReadFull(r, buf); err != nil {
		return m.broken(err)
	}
	if reason := m.differs(&h, string(buf)); reason != "" {
		return &MemberError{Name: m.Name, Reason: "its header and the directory differ in " + reason}
	}
	if _, err := io.CopyN(io.Discard, r, extra); err != nil {
		return m.broken(err)
	}
	return nil
}

// differs describes how the local header differs from m. Sizes that follow the
// data are zero in the header, or those of ZIP64.
func (m *Member) differs(h *[localSize]byte, name string) string {
	flags := le.Uint16(h[6:])
	size := func(at int, v int64) bool {
		said := int64(le.Uint32(h[at:]))
		return said != max32 && said != v
	}
	switch {
	case name != m.raw:
		return "name"
	case flags&(flagEncrypted|flagStrong|flagMasked) != 0:
		return "encryption"
	case le.Uint16(h[8:]) != m.Method:
		return "method"
	case flags&flagStreamed != 0:
		return ""
	case le.Uint32(h[14:]) != m.CRC:
		return "checksum"
	case size(18, m.Packed), size(22, m.Size):
		return "size"
	}
	return ""
}

// broken returns the error of reading the member's bytes.
func (m *Member) broken(err error) error {
	var mine *MemberError
	if errors.As(err, &mine) {
		return err
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return &MemberError{Name: m.Name, Reason: "it cannot be read", Err: err}
}

type inflater interface {
	io.ReadCloser
	flate.Resetter
}

// inflaters are pooled: each holds 40 KB and takes longer to create than to
// use.
var inflaters = sync.Pool{New: func() any { return flate.NewReader(nothing{}).(inflater) }}

func putInflater(f inflater) {
	_ = f.Reset(nothing{}, nil) // fails only for an invalid dictionary
	inflaters.Put(f)
}

// nothing is an empty Reader.
type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, io.EOF }
func (nothing) ReadByte() (byte, error)  { return 0, io.EOF }

// content yields the content of a member.
type content struct {
	m       *Member
	packed  io.LimitedReader
	inflate inflater // nil if it is stored
	src     io.Reader
	given   int64
	sum     uint32
	err     error // sticky
}

func (c *content) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	left := c.m.Size - c.given
	if left == 0 {
		c.err = c.end()
		return 0, c.err
	}
	n, err := c.src.Read(p[:min(int64(len(p)), left)])
	c.given += int64(n)
	c.sum = crc32.Update(c.sum, crc32.IEEETable, p[:n])
	switch {
	case err == nil, err == io.EOF && c.given == c.m.Size:
		return n, nil // the next Read returns the end or the error
	case err == io.EOF && c.packed.N == 0:
		c.err = c.m.shorter(c.given)
	default:
		c.err = c.m.broken(err)
	}
	return n, c.err
}

// end checks that there is no more data, and the checksum.
func (c *content) end() error {
	if c.sum != c.m.CRC {
		return &MemberError{Name: c.m.Name, Reason: "its checksum is wrong"}
	}
	if c.inflate == nil {
		return io.EOF
	}
	var more [1]byte
	if err := c.m.ended(io.ReadFull(c.src, more[:])); err != nil {
		return err
	}
	return io.EOF
}

func (c *content) Close() error {
	if c.inflate != nil {
		putInflater(c.inflate)
		c.inflate = nil
	}
	if c.err == nil {
		c.err = errors.New("read after close")
	}
	c.src = nil
	return nil
}
