package api

import (
	"bufio"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math"
	"time"

	"lockstep/catalog"
)

// A record of a keyLog is
//
//	length   4 bytes, little-endian: of the bytes after the checksum
//	checksum 4 bytes, little-endian: CRC-32C of the same bytes
//	kind     1 byte
//	at       8 bytes, little-endian: microseconds since 1970
//	id       16 bytes
//
// followed, for a request or an answer, by
//
//	request  32 bytes
//	after    uvarint
//
// followed, for a request, by the number of changes, as uvarint, and the URI; for
// an answer, by the status, as 2 bytes, little-endian, and the body.

// A keyKind is the kind of a record.
type keyKind byte

const (
	keyAsked    keyKind = 1 + iota // the request is about to be carried out
	keyAnswered                    // it was carried out; the record contains the answer
	keyDropped                     // it was not carried out
)

// A keyID identifies an idempotency key: the first half of its SHA-256.
type keyID [16]byte

// A keyRecord is the recorded state of a key.
type keyRecord struct {
	kind    keyKind
	at      time.Time // time of the request
	id      keyID
	request [32]byte    // SHA-256 of the request
	after   catalog.Seq // newest change of the set before it was carried out
	changes int         // requested changes
	uri     string      // of the resource; "" for a batch, which is applied alone
	status  int
	body    []byte
}

// dropped returns the record that a request was not carried out.
func (r *keyRecord) dropped() keyRecord { return keyRecord{kind: keyDropped, at: r.at, id: r.id} }

// answered returns the record of the answer to a request.
func (r *keyRecord) answered(status int, body []byte) keyRecord {
	return keyRecord{kind: keyAnswered, at: r.at, id: r.id, request: r.request, after: r.after, status: status, body: body}
}

const (
	keyRecordHeader = 8
	keyRecordLeast  = 1 + 8 + 16
	keyRecordMost   = 1 << 16 // memory filled because of a damaged length; a URI has at most 16 KiB
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// append appends r in the format of a file.
func (r *keyRecord) append(b []byte) []byte {
	start := len(b)
	b = append(b, make([]byte, keyRecordHeader)...)
	b = append(b, byte(r.kind))
	b = binary.LittleEndian.AppendUint64(b, uint64(r.at.UnixMicro()))
	b = append(b, r.id[:]...)
	if r.kind != keyDropped {
		b = append(b, r.request[:]...)
		b = binary.AppendUvarint(b, uint64(r.after))
	}
	switch r.kind {
	case keyAsked:
		b = binary.AppendUvarint(b, uint64(r.changes))
		b = append(b, r.uri...)
	case keyAnswered:
		b = binary.LittleEndian.AppendUint16(b, uint16(r.status))
		b = append(b, r.body...)
	case keyDropped:
	}
	payload := b[start+keyRecordHeader:]
	binary.LittleEndian.PutUint32(b[start:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(b[start+4:], crc32.Checksum(payload, castagnoli))
	return b
}

// parseKeyRecord parses the part of a record after the checksum.
func parseKeyRecord(b []byte) (r keyRecord, ok bool) {
	if len(b) < keyRecordLeast {
		return r, false
	}
	r.kind = keyKind(b[0])
	r.at = time.UnixMicro(int64(binary.LittleEndian.Uint64(b[1:])))
	copy(r.id[:], b[9:])
	b = b[keyRecordLeast:]
	if r.kind == keyDropped {
		return r, len(b) == 0
	}
	if len(b) < len(r.request) {
		return r, false
	}
	b = b[copy(r.request[:], b):]
	after, n := binary.Uvarint(b)
	if n <= 0 {
		return r, false
	}
	r.after, b = catalog.Seq(after), b[n:]
	switch r.kind {
	case keyAsked:
		changes, n := binary.Uvarint(b)
		if n <= 0 || changes > math.MaxInt32 {
			return r, false
		}
		r.changes, r.uri = int(changes), string(b[n:])
		return r, true
	case keyAnswered:
		if len(b) < 2 {
			return r, false
		}
		r.status, r.body = int(binary.LittleEndian.Uint16(b)), append([]byte(nil), b[2:]...)
		return r, true
	case keyDropped:
	}
	return r, false
}

// readKeyRecords calls each for every record, with its offset, up to the first
// incomplete or damaged one. It returns the offset of that.
func readKeyRecords(f io.ReaderAt, each func(offset int64, r keyRecord)) (end int64, err error) {
	in := bufio.NewReaderSize(io.NewSectionReader(f, 0, 1<<62), 1<<16)
	var buf []byte
	for {
		r, n, err := nextKeyRecord(in, &buf)
		switch {
		case errors.Is(err, errKeyFile), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return end, nil
		case err != nil:
			return end, err
		}
		each(end, r)
		end += n
	}
}

// readKeyRecord returns the record at an offset.
func readKeyRecord(f io.ReaderAt, offset int64) (keyRecord, error) {
	var buf []byte
	r, _, err := nextKeyRecord(io.NewSectionReader(f, offset, keyRecordHeader+keyRecordMost), &buf)
	return r, err
}

// nextKeyRecord reads a record into buf, and returns it and its size.
func nextKeyRecord(in io.Reader, buf *[]byte) (r keyRecord, size int64, err error) {
	var header [keyRecordHeader]byte
	if _, err := io.ReadFull(in, header[:]); err != nil {
		return r, 0, err
	}
	n := binary.LittleEndian.Uint32(header[:])
	if n < keyRecordLeast || n > keyRecordMost {
		return r, 0, errKeyFile
	}
	if cap(*buf) < int(n) {
		*buf = make([]byte, n)
	}
	payload := (*buf)[:n]
	if _, err := io.ReadFull(in, payload); err != nil {
		return r, 0, err
	}
	if crc32.Checksum(payload, castagnoli) != binary.LittleEndian.Uint32(header[4:]) {
		return r, 0, errKeyFile
	}
	r, ok := parseKeyRecord(payload)
	if !ok {
		return r, 0, errKeyFile
	}
	return r, int64(keyRecordHeader + n), nil
}
