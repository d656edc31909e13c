package source

import (
	"encoding/binary"
	"time"
	"unicode/utf8"
)

// Packages are written here, byte by byte, not by archive/zip: the same content
// gives the same bytes, sizes stand in front of small entries so that a package
// can be read as a stream, an entry whose size is not known in time announces
// ZIP64 where it may need it (archive/zip does not), and what must be remembered
// of 50,000 entries is their directory and nothing else. APPNOTE.TXT 6.3 is the
// specification.
const (
	methodStored  = 0
	methodDeflate = 8

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
	externalMode = 0o100644 << 16 // a regular file its owner may write and all may read

	extraZip64 = 0x0001
	extraTime  = 0x5455

	localHeaderSize = 30
	timeExtraSize   = 9

	// longEntry is the size from which an entry is announced as ZIP64: below
	// the 4 GiB at which it must be, by what deflate may add to it.
	longEntry = max32 - 64<<20
)

// A zipEntry is what a package says of a file in it.
type zipEntry struct {
	name     string
	mod      time.Time // zero if unknown
	method   uint16
	streamed bool  // checksum and sizes follow the data
	long     bool  // of a streamed entry: its sizes have eight bytes
	offset   int64 // of the local header
	crc      uint32
	raw      int64 // bytes in the package
	size     int64 // bytes of the file
}

// headerSize returns the size of e's local header.
func (e *zipEntry) headerSize() int {
	n := localHeaderSize + len(e.name)
	if e.timed() {
		n += timeExtraSize
	}
	if e.localLong() {
		n += 20
	}
	return n
}

// localLong reports whether the local header has ZIP64 sizes.
func (e *zipEntry) localLong() bool {
	if e.streamed {
		return e.long
	}
	return e.raw >= max32 || e.size >= max32
}

// timed reports whether the modification time fits the field that has no zone
// to be guessed.
func (e *zipEntry) timed() bool {
	return !e.mod.IsZero() && e.mod.Unix() >= -1<<31 && e.mod.Unix() < 1<<31
}

func (e *zipEntry) flags() uint16 {
	var f uint16
	if e.streamed {
		f |= flagDescriptor
	}
	for i := range len(e.name) {
		if e.name[i] >= utf8.RuneSelf {
			return f | flagUTF8
		}
	}
	return f
}

func (e *zipEntry) version(long bool) uint16 {
	if long {
		return zip45
	}
	return zip20
}

// dosTime returns the modification time in DOS's words, in UTC.
func (e *zipEntry) dosTime() (date, clock uint16) {
	t := e.mod.UTC()
	if t.Year() < 1980 {
		return 1<<5 | 1, 0
	}
	if t.Year() > 2107 {
		return 127<<9 | 12<<5 | 31, 0
	}
	return uint16((t.Year()-1980)<<9 | int(t.Month())<<5 | t.Day()), uint16(t.Hour()<<11 | t.Minute()<<5 | t.Second()/2)
}

var le = binary.LittleEndian

// appendLocal appends the header in front of e's data.
func (e *zipEntry) appendLocal(b []byte) []byte {
	long := e.localLong()
	date, clock := e.dosTime()
	crc, raw, size := e.crc, uint32(min(e.raw, max32)), uint32(min(e.size, max32))
	switch {
	case e.streamed && long:
		crc, raw, size = 0, max32, max32
	case e.streamed:
		crc, raw, size = 0, 0, 0
	case long:
		raw, size = max32, max32
	}
	b = le.AppendUint32(b, localSignature)
	b = le.AppendUint16(b, e.version(long))
	b = le.AppendUint16(b, e.flags())
	b = le.AppendUint16(b, e.method)
	b = le.AppendUint16(b, clock)
	b = le.AppendUint16(b, date)
	b = le.AppendUint32(b, crc)
	b = le.AppendUint32(b, raw)
	b = le.AppendUint32(b, size)
	b = le.AppendUint16(b, uint16(len(e.name)))
	b = le.AppendUint16(b, uint16(e.headerSize()-localHeaderSize-len(e.name)))
	b = append(b, e.name...)
	if long {
		b = le.AppendUint16(b, extraZip64)
		b = le.AppendUint16(b, 16)
		if e.streamed {
			b = le.AppendUint64(le.AppendUint64(b, 0), 0)
		} else {
			b = le.AppendUint64(le.AppendUint64(b, uint64(e.size)), uint64(e.raw))
		}
	}
	return e.appendTime(b)
}

func (e *zipEntry) appendTime(b []byte) []byte {
	if !e.timed() {
		return b
	}
	b = le.AppendUint16(b, extraTime)
	b = le.AppendUint16(b, timeExtraSize-4)
	b = append(b, 1) // a modification time follows
	return le.AppendUint32(b, uint32(e.mod.Unix()))
}

// appendDescriptor appends what follows the data of a streamed entry.
func (e *zipEntry) appendDescriptor(b []byte) []byte {
	b = le.AppendUint32(b, descriptorSignature)
	b = le.AppendUint32(b, e.crc)
	if e.long {
		return le.AppendUint64(le.AppendUint64(b, uint64(e.raw)), uint64(e.size))
	}
	return le.AppendUint32(le.AppendUint32(b, uint32(e.raw)), uint32(e.size))
}

// appendCentral appends e's record in the directory at the end.
func (e *zipEntry) appendCentral(b []byte) []byte {
	date, clock := e.dosTime()
	var extra []byte
	raw, size, offset := uint32(min(e.raw, max32)), uint32(min(e.size, max32)), uint32(min(e.offset, max32))
	if long := e.localLong(); long || e.offset >= max32 {
		if long { // both, also where one would fit
			raw, size = max32, max32
			extra = le.AppendUint64(le.AppendUint64(extra, uint64(e.size)), uint64(e.raw))
		}
		if e.offset >= max32 {
			extra = le.AppendUint64(extra, uint64(e.offset))
		}
		extra = append(le.AppendUint16(le.AppendUint16(nil, extraZip64), uint16(len(extra))), extra...)
	}
	long := len(extra) > 0
	extra = e.appendTime(extra)
	b = le.AppendUint32(b, centralSignature)
	b = le.AppendUint16(b, madeByUnix|e.version(long))
	b = le.AppendUint16(b, e.version(long))
	b = le.AppendUint16(b, e.flags())
	b = le.AppendUint16(b, e.method)
	b = le.AppendUint16(b, clock)
	b = le.AppendUint16(b, date)
	b = le.AppendUint32(b, e.crc)
	b = le.AppendUint32(b, raw)
	b = le.AppendUint32(b, size)
	b = le.AppendUint16(b, uint16(len(e.name)))
	b = le.AppendUint16(b, uint16(len(extra)))
	b = le.AppendUint16(b, 0) // no comment
	b = le.AppendUint16(b, 0) // first disk
	b = le.AppendUint16(b, 0) // no text file in particular
	b = le.AppendUint32(b, externalMode)
	b = le.AppendUint32(b, offset)
	b = append(b, e.name...)
	return append(b, extra...)
}

// appendEnd appends what follows the directory of so many entries and bytes,
// which begins at offset.
func appendEnd(b []byte, entries int, size, offset int64) []byte {
	n, short, at := uint16(min(entries, max16)), uint32(min(size, max32)), uint32(min(offset, max32))
	if entries >= max16 || size >= max32 || offset >= max32 {
		b = le.AppendUint32(b, end64Signature)
		b = le.AppendUint64(b, 44) // of what follows in this record
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
