package column

import (
	"encoding/binary"
	"errors"

	"lockstep/resourcesync"
)

// ErrDamaged reports a value that the encoding cannot have written.
var ErrDamaged = errors.New("damaged value")

// EncodeHashes encodes each hash as a byte for the algorithm, one for the
// length of the digest, and the digest. The numbers of the algorithms are those
// of package resourcesync and never change.
func EncodeHashes(hs resourcesync.Hashes) []byte {
	if len(hs) == 0 {
		return nil
	}
	return AppendHashes(make([]byte, 0, 64), hs)
}

// AppendHashes appends what EncodeHashes returns to b.
func AppendHashes(b []byte, hs resourcesync.Hashes) []byte {
	for _, h := range hs {
		b = append(b, byte(h.Algorithm), byte(len(h.Digest)))
		b = append(b, h.Digest...)
	}
	return b
}

// DecodeHashes is the inverse of EncodeHashes.
func DecodeHashes(b []byte) (resourcesync.Hashes, error) {
	if len(b) == 0 {
		return nil, nil
	}
	hs := make(resourcesync.Hashes, 0, 2)
	for s := string(b); len(s) > 0; { // one copy for all digests
		if len(s) < 2 || len(s) < 2+int(s[1]) {
			return nil, ErrDamaged
		}
		n := 2 + int(s[1])
		hs = append(hs, resourcesync.Hash{Algorithm: resourcesync.Algorithm(s[0]), Digest: s[2:n]})
		s = s[n:]
	}
	return hs, nil
}

// EncodeSets encodes the numbers as varints.
func EncodeSets(sets []int) []byte {
	if len(sets) == 0 {
		return nil
	}
	return AppendSets(make([]byte, 0, len(sets)), sets)
}

// AppendSets appends what EncodeSets returns to b.
func AppendSets(b []byte, sets []int) []byte {
	for _, n := range sets {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

// DecodeSets is the inverse of EncodeSets.
func DecodeSets(b []byte) ([]int, error) {
	var sets []int
	for len(b) > 0 {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			return nil, ErrDamaged
		}
		sets, b = append(sets, int(n)), b[size:]
	}
	return sets, nil
}

// EncodeStrings encodes each string after its length, as uvarint.
func EncodeStrings(ss []string) []byte {
	if len(ss) == 0 {
		return nil
	}
	var b []byte
	for _, s := range ss {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b
}

// DecodeStrings is the inverse of EncodeStrings.
func DecodeStrings(b []byte) ([]string, error) {
	if len(b) == 0 {
		return nil, nil
	}
	var ss []string
	p := parser{s: string(b)}
	for p.i < len(p.s) && !p.bad {
		ss = append(ss, p.string())
	}
	if p.bad {
		return nil, ErrDamaged
	}
	return ss, nil
}
