// Package zipfile writes ZIP packages: headers, descriptors and the directory,
// with ZIP64 where sizes need it.
//
// It does not use archive/zip: the same content gives the same bytes, the sizes of small
// entries precede their data so that a package can be read as a stream, an
// entry whose size is not known in advance announces ZIP64 if it may need it
// (archive/zip does not, and writes ZIP64 sizes of raw entries into the
// directory only), and what is stored of 50,000 entries is their directory and
// nothing else. APPNOTE.TXT 6.3 is the specification.
package zipfile

import (
	"encoding/binary"
	"time"
	"unicode/utf8"
)

// The methods of compression.
const (
	Stored  = 0
	Deflate = 8
)

// LongEntry is the size from which a streamed entry has to be announced as
// ZIP64: below the 4 GiB at which it must be, by what deflate may add to it.
const LongEntry = max32 - 64<<20

const (
	localSignature      = 0x04034b50
	descriptorSignature = 0x08074b50
	centralSignature    = 0x02014b50
	endSignature        = 0x06054b50
	end64Signature      = 0x06064b50
	locator64Signature  = 0x07064b50

	flagDescriptor = 1 << 3  // sizes and checksum follow the data
	flagUTF8       = 1 << 11 // of names that are not ASCII (RS-ZIP-03)

	zip20 = 20 // version needed: deflate
	zip45 = 45 // and ZIP64

	max16 = 1<<16 - 1
	max32 = 1<<32 - 1

	madeByUnix   = 3 << 8
	externalMode = 0o100644 << 16 // a regular file, writable by its owner, readable by all

	extraZip64 = 0x0001
	extraTime  = 0x5455

	localHeaderSize = 30
	timeExtraSize   = 9
)

// An Entry describes one file of a package.
type Entry struct {
	Name     string
	Modified time.Time // zero if unknown
	Method   uint16    // Stored or Deflate
	Streamed bool      // checksum and sizes follow the data
	Long     bool      // of a streamed entry: its sizes have eight bytes
	Offset   int64     // of the local header
	CRC32    uint32
	Packed   int64 // bytes in the package
	Size     int64 // bytes of the file
}

// HeaderSize returns the size of e's local header.
func (e *Entry) HeaderSize() int {
	n := localHeaderSize + len(e.Name)
	if e.timed() {
		n += timeExtraSize
	}
	if e.localLong() {
		n += 20
	}
	return n
}

// localLong reports whether the local header has ZIP64 sizes.
func (e *Entry) localLong() bool {
	if e.Streamed {
		return e.Long
	}
	return e.Packed >= max32 || e.Size >= max32
}

// timed reports whether the modification time fits the field that is in UTC;
// readers have to guess the zone of the other one.
func (e *Entry) timed() bool {
	return !e.Modified.IsZero() && e.Modified.Unix() >= -1<<31 && e.Modified.Unix() < 1<<31
}

func (e *Entry) flags() uint16 {
	var f uint16
	if e.Streamed {
		f |= flagDescriptor
	}
	for i := range len(e.Name) {
		if e.Name[i] >= utf8.RuneSelf {
			return f | flagUTF8
		}
	}
	return f
}

func (e *Entry) version(long bool) uint16 {
	if long {
		return zip45
	}
	return zip20
}

// dosTime returns the modification time in DOS's format, in UTC.
func (e *Entry) dosTime() (date, clock uint16) {
	t := e.Modified.UTC()
	if t.Year() < 1980 {
		return 1<<5 | 1, 0
	}
	if t.Year() > 2107 {
		return 127<<9 | 12<<5 | 31, 0
	}
	return uint16((t.Year()-1980)<<9 | int(t.Month())<<5 | t.Day()), uint16(t.Hour()<<11 | t.Minute()<<5 | t.Second()/2)
}

var le = binary.LittleEndian

// AppendLocal appends the header that precedes e's data.
func (e *Entry) AppendLocal(b []byte) []byte {
	long := e.localLong()
	date, clock := e.dosTime()
	crc, raw, size := e.CRC32, uint32(min(e.Packed, max32)), uint32(min(e.Size, max32))
	switch {
	case e.Streamed && long:
		crc, raw, size = 0, max32, max32
	case e.Streamed:
		crc, raw, size = 0, 0, 0
	case long:
		raw, size = max32, max32
	}
	b = le.AppendUint32(b, localSignature)
	b = le.AppendUint16(b, e.version(long))
	b = le.AppendUint16(b, e.flags())
	b = le.AppendUint16(b, e.Method)
	b = le.AppendUint16(b, clock)
	b = le.AppendUint16(b, date)
	b = le.AppendUint32(b, crc)
	b = le.AppendUint32(b, raw)
	b = le.AppendUint32(b, size)
	b = le.AppendUint16(b, uint16(len(e.Name)))
	b = le.AppendUint16(b, uint16(e.HeaderSize()-localHeaderSize-len(e.Name)))
	b = append(b, e.Name...)
	if long {
		b = le.AppendUint16(b, extraZip64)
		b = le.AppendUint16(b, 16)
		if e.Streamed {
			b = le.AppendUint64(le.AppendUint64(b, 0), 0)
		} else {
			b = le.AppendUint64(le.AppendUint64(b, uint64(e.Size)), uint64(e.Packed))
		}
	}
	return e.appendTime(b)
}

func (e *Entry) appendTime(b []byte) []byte {
	if !e.timed() {
		return b
	}
	b = le.AppendUint16(b, extraTime)
	b = le.AppendUint16(b, timeExtraSize-4)
	b = append(b, 1) // a modification time follows
	return le.AppendUint32(b, uint32(e.Modified.Unix()))
}

// appendDescriptor appends the record that follows the data of a streamed entry.
func (e *Entry) appendDescriptor(b []byte) []byte {
	b = le.AppendUint32(b, descriptorSignature)
	b = le.AppendUint32(b, e.CRC32)
	if e.Long {
		return le.AppendUint64(le.AppendUint64(b, uint64(e.Packed)), uint64(e.Size))
	}
	return le.AppendUint32(le.AppendUint32(b, uint32(e.Packed)), uint32(e.Size))
}

// appendCentral appends e's record in the directory at the end.
func (e *Entry) appendCentral(b []byte) []byte {
	date, clock := e.dosTime()
	var extra []byte
	raw, size, offset := uint32(min(e.Packed, max32)), uint32(min(e.Size, max32)), uint32(min(e.Offset, max32))
	if long := e.localLong(); long || e.Offset >= max32 {
		if long { // both, also where one would fit
			raw, size = max32, max32
			extra = le.AppendUint64(le.AppendUint64(extra, uint64(e.Size)), uint64(e.Packed))
		}
		if e.Offset >= max32 {
			extra = le.AppendUint64(extra, uint64(e.Offset))
		}
		extra = append(le.AppendUint16(le.AppendUint16(nil, extraZip64), uint16(len(extra))), extra...)
	}
	long := len(extra) > 0
	extra = e.appendTime(extra)
	b = le.AppendUint32(b, centralSignature)
	b = le.AppendUint16(b, madeByUnix|e.version(long))
	b = le.AppendUint16(b, e.version(long))
	b = le.AppendUint16(b, e.flags())
	b = le.AppendUint16(b, e.Method)
	b = le.AppendUint16(b, clock)
	b = le.AppendUint16(b, date)
	b = le.AppendUint32(b, e.CRC32)
	b = le.AppendUint32(b, raw)
	b = le.AppendUint32(b, size)
	b = le.AppendUint16(b, uint16(len(e.Name)))
	b = le.AppendUint16(b, uint16(len(extra)))
	b = le.AppendUint16(b, 0) // no comment
	b = le.AppendUint16(b, 0) // first disk
	b = le.AppendUint16(b, 0) // not known to be text
	b = le.AppendUint32(b, externalMode)
	b = le.AppendUint32(b, offset)
	b = append(b, e.Name...)
	return append(b, extra...)
}

// appendEnd appends the records that follow a directory with that number of
// entries and bytes, which begins at offset.
func appendEnd(b []byte, entries int, size, offset int64) []byte {
	n, short, at := uint16(min(entries, max16)), uint32(min(size, max32)), uint32(min(offset, max32))
	if entries >= max16 || size >= max32 || offset >= max32 {
		b = le.AppendUint32(b, end64Signature)
		b = le.AppendUint64(b, 44) // bytes that follow in this record
		b = le.AppendUint16(b, madeByUnix|zip45)
		b = le.AppendUint16(b, zip45)
		b = le.AppendUint32(b, 0) // this disk
		b = le.AppendUint32(b, 0) // the directory's disk
		b = le.AppendUint64(b, uint64(entries))
		b = le.AppendUint64(b, uint64(entries))
		b = le.AppendUint64(b, uint64(size))
		b = le.AppendUint64(b, uint64(offset))
		b = le.AppendUint32(b, locator64Signature)
		b = le.AppendUint32(b, 0)                   // the disk of the record above
		b = le.AppendUint64(b, uint64(offset+size)) // where it begins
		b = le.AppendUint32(b, 1)                   // disks
	}
	b = le.AppendUint32(b, endSignature)
	b = le.AppendUint16(b, 0) // this disk
	b = le.AppendUint16(b, 0) // the directory's disk
	b = le.AppendUint16(b, n)
	b = le.AppendUint16(b, n)
	b = le.AppendUint32(b, short)
	b = le.AppendUint32(b, at)
	return le.AppendUint16(b, 0) // no comment
}
