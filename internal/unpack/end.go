package unpack

import (
	"encoding/binary"
	"io"
)

const (
	localSignature     = 0x04034b50
	centralSignature   = 0x02014b50
	endSignature       = 0x06054b50
	end64Signature     = 0x06064b50
	locator64Signature = 0x07064b50

	localSize   = 30
	centralSize = 46
	endSize     = 22
	end64Size   = 56
	locatorSize = 20

	max16 = 1<<16 - 1
	max32 = 1<<32 - 1

	// TailSize is how many bytes at the end of a package contain the record with
	// the position of its directory.
	TailSize = end64Size + locatorSize + endSize + max16

	// maxEnds is how many possible end records are tried: a comment can be full of
	// them.
	maxEnds = 4
)

var le = binary.LittleEndian

// An end is the record at the end of a package.
type end struct {
	at      int64 // of the record, or of the preceding ZIP64 record
	members uint64
	size    uint64 // of the directory
	offset  uint64 // of the directory, as stated in the record
	long    bool   // ZIP64: the number of members is exact
}

// findEnds returns the possible end records, the last one first.
func findEnds(at io.ReaderAt, size int64) ([]end, error) {
	if size < endSize {
		return nil, ErrNotZip
	}
	tail := make([]byte, min(size, TailSize))
	start := size - int64(len(tail))
	if err := readAt(at, tail, start); err != nil {
		return nil, err
	}
	var ends []end
	for i := len(tail) - endSize; i >= 0 && len(ends) < maxEnds; i-- {
		if tail[i] != 'P' || le.Uint32(tail[i:]) != endSignature {
			continue
		}
		e, ok, err := parseEnd(at, tail, i, start)
		if err != nil {
			return nil, err
		}
		if ok {
			ends = append(ends, e)
		}
	}
	if len(ends) == 0 {
		return nil, ErrNotZip
	}
	return ends, nil
}

// parseEnd parses the record at tail[i:], and the ZIP64 record that belongs to
// it.
func parseEnd(at io.ReaderAt, tail []byte, i int, start int64) (e end, ok bool, err error) {
	b := tail[i:]
	if int(le.Uint16(b[20:])) > len(b)-endSize {
		return end{}, false, nil // the comment would not fit
	}
	disk, dirDisk, here, all := le.Uint16(b[4:]), le.Uint16(b[6:]), le.Uint16(b[8:]), le.Uint16(b[10:])
	e = end{at: start + int64(i), members: uint64(all), size: uint64(le.Uint32(b[12:])), offset: uint64(le.Uint32(b[16:]))}
	if all == max16 || e.size == max32 || e.offset == max32 || e.size == max16 {
		long, found, err := findEnd64(at, e.at)
		if err != nil {
			return end{}, false, err
		}
		if found {
			return long, true, nil
		}
	}
	// Another disk, or a directory longer than the data before the record.
	ok = disk == 0 && dirDisk == 0 && here == all && e.size <= uint64(e.at) && e.offset <= uint64(e.at)
	return e, ok, nil
}

// findEnd64 reads the ZIP64 record of the end record at pos, if there is one:
// at the position in its locator, or just before the locator, if data precede
// the package.
func findEnd64(at io.ReaderAt, pos int64) (e end, found bool, err error) {
	if pos < locatorSize+end64Size {
		return end{}, false, nil
	}
	var loc [locatorSize]byte
	if err := readAt(at, loc[:], pos-locatorSize); err != nil {
		return end{}, false, err
	}
	if le.Uint32(loc[:]) != locator64Signature || le.Uint32(loc[4:]) != 0 || le.Uint32(loc[16:]) > 1 {
		return end{}, false, nil
	}
	before := pos - locatorSize - end64Size
	for _, where := range []uint64{le.Uint64(loc[8:]), uint64(before)} {
		if where > uint64(before) {
			continue
		}
		var b [end64Size]byte
		if err := readAt(at, b[:], int64(where)); err != nil {
			return end{}, false, err
		}
		e = end{at: int64(where), members: le.Uint64(b[32:]), size: le.Uint64(b[40:]), offset: le.Uint64(b[48:]), long: true}
		if le.Uint32(b[:]) == end64Signature && le.Uint32(b[16:]) == 0 && le.Uint32(b[20:]) == 0 &&
			le.Uint64(b[24:]) == e.members && e.size <= where && e.offset <= where {
			return e, true, nil
		}
	}
	return end{}, false, nil
}

// readAt fills b. It returns ErrNotZip if the bytes do not exist.
func readAt(at io.ReaderAt, b []byte, off int64) error {
	n, err := at.ReadAt(b, off)
	switch {
	case n == len(b):
		return nil
	case err == nil, err == io.EOF, err == io.ErrUnexpectedEOF:
		return ErrNotZip
	}
	return err
}
