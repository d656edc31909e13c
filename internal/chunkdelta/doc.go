// Package chunkdelta makes and applies deltas between versions of a large content,
// without holding either version in memory.
//
// A content is cut into chunks of about 4 KB ([lockstep/internal/chunks]). The
// [Index] of a version lists their hashes, and is all that is needed of that version
// to make the delta to the next one:
//
//	s := chunkdelta.NewScanner(index, old) // old is the Index of the version before
//	err := s.Scan(file)                    // writes the index of this version
//	delta, err := s.Delta(sum)
//
// A chunk that the old version has becomes an instruction to copy it, any other one
// is contained in the delta. A [Delta] is applied while its result is read:
//
//	d, err := chunkdelta.Parse(delta)
//	_, err = io.Copy(w, d.Reader(oldFile))
//
// A delta is untrusted: [Parse] checks every length and offset, and its memory is
// bounded. It does not prove that the result is right: the caller compares the hash
// of the result with the stated one.
//
// # Format
//
//	magic "lsdelta1"                      8 bytes
//	SHA-256 of the old content            32 bytes
//	length of the old content             4 bytes, little endian, as those that follow
//	length of the new content             4 bytes
//	number of literal bytes               4 bytes
//	number of instructions                4 bytes
//	literal bytes, then instructions      compressed, Zstandard with a window of 8 MiB at most
//
// Each instruction appends some bytes to the new content:
//
//	length<<1 | 1, distance    uvarint, varint: bytes of the old content, that many after the end of the previous copy
//	length<<1                  uvarint: the next literal bytes
//
// No length is zero. Varints are those of [encoding/binary].
package chunkdelta

import (
	"crypto/sha256"
	"errors"

	"lockstep/internal/chunks"
)

const (
	// MaxContent is the maximum length of contents, old and new.
	MaxContent = 1 << 30

	// MaxDelta is the maximum length of a delta, which is held in memory.
	MaxDelta = 20 << 20

	// maxLiterals is the maximum number of literal bytes in a delta, and twice of it
	// that in several applied together. Changes of more bytes are fetched as a whole.
	maxLiterals = 16 << 20

	magic      = "lsdelta1"
	headerSize = len(magic) + sha256.Size + 4*4

	// maxWindow is the maximum window of the compressed part: more memory is not
	// needed for 16 MiB of literals and instructions.
	maxWindow = 8 << 20
)

// maxPieces returns the maximum number of instructions of a delta whose result has
// size bytes. Those that a Scanner makes have one for every chunk at most.
func maxPieces(size int64) int64 { return size/1024 + 64 }

// classes has the size of chunks. It is part of the format of an Index: chunks of
// other sizes would not be found.
var classes = []chunks.Class{{Min: 2 << 10, Avg: 4 << 10, Max: 16 << 10}}

// scanBuffer is how much of a content is read at a time.
const scanBuffer = 128 << 10

// A Digest is the SHA-256 of a content.
type Digest = [sha256.Size]byte

var (
	// ErrInvalid reports bytes that are not a delta, or a delta that does not fit the
	// content that it is applied to.
	ErrInvalid = errors.New("not a delta of this content")

	// ErrTooLarge reports a delta that exceeds a limit.
	ErrTooLarge = errors.New("delta exceeds the limit")

	// ErrIndex reports bytes that are not the index of a content.
	ErrIndex = errors.New("not the index of this content")
)
