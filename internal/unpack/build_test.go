package unpack_test

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
	"testing"
)

// A file is a member of an archive to be built. Zero fields mean valid values.
type file struct {
	name   string
	data   string
	packed []byte // replaces data in the archive
	method uint16
	flags  uint16
	attrs  uint32 // external ones
	disk   uint16
	extra  []byte // in the directory
	local  func(h []byte) []byte
	record func(h []byte) []byte // in the directory, extra and name included
	at     int64                 // where the directory says it is; zero: the true position
	gap    int                   // bytes before it
}

// An archive is made of files.
type archive struct {
	files   []file
	prefix  []byte
	comment string
	count   int // added to the true values in the end record
	end     func(b []byte) []byte
}

var le = binary.LittleEndian

func deflated(data string) []byte {
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, 6) // the level is right
	_, _ = w.Write([]byte(data))   // in memory
	_ = w.Close()                  // likewise
	return b.Bytes()
}

func (a *archive) bytes(t testing.TB) []byte {
	t.Helper()
	out := bytes.Clone(a.prefix)
	var dir []byte
	for _, f := range a.files {
		out = append(out, make([]byte, f.gap)...)
		offset := int64(len(out) - len(a.prefix))
		if f.at != 0 {
			offset = f.at
		}
		packed := f.packed
		if packed == nil {
			if packed = []byte(f.data); f.method == 8 {
				packed = deflated(f.data)
			}
		}
		sum := crc32.ChecksumIEEE([]byte(f.data))
		h := le.AppendUint32(nil, 0x04034b50)
		h = le.AppendUint16(h, 20)
		h = le.AppendUint16(h, f.flags)
		h = le.AppendUint16(h, f.method)
		h = le.AppendUint32(h, 0)
		h = le.AppendUint32(h, sum)
		h = le.AppendUint32(h, uint32(len(packed)))
		h = le.AppendUint32(h, uint32(len(f.data)))
		h = le.AppendUint16(h, uint16(len(f.name)))
		h = le.AppendUint16(h, 0)
		h = append(h, f.name...)
		if f.local != nil {
			h = f.local(h)
		}
		out = append(append(out, h...), packed...)

		r := le.AppendUint32(nil, 0x02014b50)
		r = le.AppendUint16(r, 3<<8|20)
		r = le.AppendUint16(r, 20)
		r = le.AppendUint16(r, f.flags)
		r = le.AppendUint16(r, f.method)
		r = le.AppendUint32(r, 0)
		r = le.AppendUint32(r, sum)
		r = le.AppendUint32(r, uint32(len(packed)))
		r = le.AppendUint32(r, uint32(len(f.data)))
		r = le.AppendUint16(r, uint16(len(f.name)))
		r = le.AppendUint16(r, uint16(len(f.extra)))
		r = le.AppendUint16(r, 0)
		r = le.AppendUint16(r, f.disk)
		r = le.AppendUint16(r, 0)
		r = le.AppendUint32(r, f.attrs)
		r = le.AppendUint32(r, uint32(offset))
		r = append(append(r, f.name...), f.extra...)
		if f.record != nil {
			r = f.record(r)
		}
		dir = append(dir, r...)
	}
	start := len(out) - len(a.prefix)
	out = append(out, dir...)
	n := uint16(len(a.files) + a.count)
	e := le.AppendUint32(nil, 0x06054b50)
	e = le.AppendUint32(e, 0)
	e = le.AppendUint16(le.AppendUint16(e, n), n)
	e = le.AppendUint32(e, uint32(len(dir)))
	e = le.AppendUint32(e, uint32(start))
	e = le.AppendUint16(e, uint16(len(a.comment)))
	e = append(e, a.comment...)
	if a.end != nil {
		e = a.end(e)
	}
	return append(out, e...)
}

// set32 returns an edit of a header.
func set32(at int, v uint32) func([]byte) []byte {
	return func(b []byte) []byte { le.PutUint32(b[at:], v); return b }
}

func set16(at int, v uint16) func([]byte) []byte {
	return func(b []byte) []byte { le.PutUint16(b[at:], v); return b }
}
