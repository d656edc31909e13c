package vault

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// The name of a blob in the vault is the digest of its content:
//
//	ab/abcdef…        in one of 256 directories
//
// It consists of
//
//	magic             8 bytes
//	chunks            one after the other, each raw or as a zstd frame
//	table             describes the content, see below
//	length of table   4 bytes, little endian
//	checksum          16 bytes: of magic, name and table
//
// The table is a sequence of unsigned varints and digests:
//
//	size of the content, length of the chunks
//	number of sources, the digest of each: other blobs that have chunks of it
//	number of chunks, and for each in the order of the content either
//	    0, number of an equal preceding chunk
//	    1 + source (0 is this blob), digest, length, length stored, offset
//	up to 3 zero bytes
//
// A chunk whose stored length is shorter than its length is compressed. If the
// content has only one chunk and that is in the blob itself, its digest is that of
// the content and omitted.
//
// The zero bytes make the length of the blob modulo four equal its [kind], so that
// a listing shows the kinds of blobs.
const (
	magic     = "lsvault1"
	sumSize   = 16
	footSize  = 4 + sumSize
	minSize   = len(magic) + 4 + footSize // of a blob
	maxTable  = 256 << 20
	tailFirst = 64 << 10 // how much is read at first, hoping that it includes the table
)

// A kind states which chunks a blob has.
type kind uint8

const (
	kindWhole   kind = iota // has all chunks of its content
	kindShared              // has some of them, and names the blobs that have the others
	kindRemnant             // has only chunks that other blobs need
)

func kindOf(size int64) kind { return kind(size % 4) }

// name returns the name of the blob.
func (d Digest) name() string {
	s := d.String()
	return s[:2] + "/" + s
}

// parseName parses the name of a vault's blob.
func parseName(name string) (d Digest, ok bool) {
	if len(name) != 3+2*len(d) || name[2] != '/' || name[:2] != name[3:5] || strings.ToLower(name) != name {
		return d, false
	}
	_, err := hex.Decode(d[:], []byte(name[3:]))
	return d, err == nil
}

// A chunk is a piece of a content, and its location.
type chunk struct {
	digest Digest
	source int   // 0: the blob itself; else number of a source, plus one
	size   int   // in bytes
	stored int   // likewise, as stored
	off    int64 // in the blob that contains it
	at     int64 // in the content
}

// A table describes the chunks of a content.
type table struct {
	kind    kind
	size    int64 // of the content
	data    int64 // length of the chunks in the blob
	sources []Digest
	chunks  []chunk
}

// errFormat reports a blob that no vault has written.
var errFormat = errors.New("not as it was written")

// appendTo appends the table, its length and checksum, of the content d.
func (t *table) appendTo(b []byte, d Digest) []byte {
	first := len(b)
	b = binary.AppendUvarint(b, uint64(t.size))
	b = binary.AppendUvarint(b, uint64(t.data))
	b = binary.AppendUvarint(b, uint64(len(t.sources)))
	for _, s := range t.sources {
		b = append(b, s[:]...)
	}
	b = binary.AppendUvarint(b, uint64(len(t.chunks)))
	seen := make(map[Digest]int)
	for i := range t.chunks {
		c := &t.chunks[i]
		if len(t.chunks) > 1 {
			if n, again := seen[c.digest]; again {
				b = append(b, 0)
				b = binary.AppendUvarint(b, uint64(n))
				continue
			}
			seen[c.digest] = i
		}
		b = binary.AppendUvarint(b, uint64(c.source)+1)
		if !t.sole(c) {
			b = append(b, c.digest[:]...)
		}
		b = binary.AppendUvarint(b, uint64(c.size))
		b = binary.AppendUvarint(b, uint64(c.stored))
		b = binary.AppendUvarint(b, uint64(c.off))
	}
	for (int64(len(magic))+t.data+int64(len(b)-first)+footSize)%4 != int64(t.kind) {
		b = append(b, 0)
	}
	length := len(b) - first
	sum := sumOf(d, b[first:])
	b = binary.LittleEndian.AppendUint32(b, uint32(length))
	return append(b, sum[:]...)
}

// sole reports whether c is the whole content, in the blob itself.
func (t *table) sole(c *chunk) bool {
	return t.kind == kindWhole && len(t.chunks) == 1 && c.source == 0
}

func sumOf(d Digest, table []byte) (sum [sumSize]byte) {
	h := sha256.New()
	h.Write([]byte(magic)) // never fails
	h.Write(d[:])
	h.Write(table)
	copy(sum[:], h.Sum(nil))
	return sum
}

// tableSize returns the length of the table, from the last bytes of a blob of
// size bytes.
func tableSize(foot []byte, size int64) (int64, error) {
	n := int64(binary.LittleEndian.Uint32(foot))
	if n > maxTable || n > size-int64(len(magic))-footSize {
		return 0, fmt.Errorf("%w: its table would have %d bytes", errFormat, n)
	}
	return n, nil
}

// parseTable parses the table of the blob of content d, which has size bytes.
// tail is the table with what follows it.
func parseTable(tail []byte, d Digest, size int64) (*table, error) {
	body, foot := tail[:len(tail)-footSize], tail[len(tail)-footSize:]
	if sum := sumOf(d, body); !bytes.Equal(sum[:], foot[4:]) {
		return nil, fmt.Errorf("%w: its table has another checksum", errFormat)
	}
	p := parser{b: body}
	t := &table{kind: kindOf(size)}
	t.size, t.data = p.number(), p.number()
	t.sources = make([]Digest, p.count(len(Digest{})))
	for i := range t.sources {
		t.sources[i] = p.digest()
	}
	n := p.count(2)
	if n > maxChunks {
		return nil, fmt.Errorf("%w: its table has %d chunks", errFormat, n)
	}
	t.chunks = make([]chunk, n)
	at := int64(0)
	for i := range t.chunks {
		c := p.chunk(t, i, d)
		c.at = at
		at += int64(c.size)
		t.chunks[i] = c
		if p.bad {
			break
		}
	}
	switch {
	case p.bad, len(p.b) > 3 || len(bytes.Trim(p.b, "\x00")) > 0,
		t.data != size-int64(len(magic)+len(tail)),
		t.kind > kindRemnant, t.kind != kindRemnant && at != t.size,
		(t.kind == kindShared) != (len(t.sources) > 0):
		return nil, fmt.Errorf("%w: its table makes no sense", errFormat)
	}
	return t, nil
}

// A parser parses a table. Its error is sticky.
type parser struct {
	b   []byte
	bad bool
}

func (p *parser) number() int64 {
	n, size := binary.Uvarint(p.b)
	if size <= 0 || n > 1<<62 {
		p.bad, p.b = true, nil
		return 0
	}
	p.b = p.b[size:]
	return int64(n)
}

// count reads a number of items, each of at least size bytes.
func (p *parser) count(size int) int {
	n := p.number()
	if n > int64(len(p.b)/size) {
		p.bad, p.b = true, nil
		return 0
	}
	return int(n)
}

func (p *parser) digest() (d Digest) {
	if copy(d[:], p.b) < len(d) {
		p.bad, p.b = true, nil
		return Digest{}
	}
	p.b = p.b[len(d):]
	return d
}

// chunk reads the chunk with that number.
func (p *parser) chunk(t *table, i int, d Digest) (c chunk) {
	source := p.number()
	if source == 0 {
		n := p.number()
		if p.bad || n >= int64(i) {
			p.bad = true
			return c
		}
		return t.chunks[n]
	}
	if source-1 > int64(len(t.sources)) {
		p.bad = true
		return c
	}
	c.source = int(source - 1)
	if c.digest = d; !t.sole(&c) {
		c.digest = p.digest()
	}
	size, stored := p.number(), p.number()
	c.off = p.number()
	c.size, c.stored = int(min(size, maxChunk)), int(min(stored, maxChunk))
	p.bad = p.bad || size > maxChunk || size == 0 || stored > size || stored == 0 || c.off < int64(len(magic)) ||
		c.source == 0 && c.off+stored > int64(len(magic))+t.data
	return c
}
