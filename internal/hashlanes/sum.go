package hashlanes

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"hash"
	"math"
)

// MD5 sets each sums[i] to the MD5 digest of messages[i].
func MD5(sums [][md5.Size]byte, messages [][]byte) {
	if len(messages) < several {
		for i, m := range messages {
			sums[i] = md5.Sum(m)
		}
		return
	}
	b := batch{kernel: bestMD5(), messages: messages, sum: func(i int) []byte { return sums[i][:0] }}
	b.run()
}

// SHA256 sets each sums[i] to the SHA-256 digest of messages[i].
func SHA256(sums [][sha256.Size]byte, messages [][]byte) {
	if len(messages) < several {
		for i, m := range messages {
			sums[i] = sha256.Sum256(m)
		}
		return
	}
	b := batch{kernel: bestSHA256(), messages: messages, sum: func(i int) []byte { return sums[i][:0] }}
	b.run()
}

// several is the number of messages from which on it is measured which kernel is the
// fastest: the measurement takes as long as a hundred messages of 1 KB.
const several = 4

const (
	blockSize = 64 // of both algorithms
	maxWords  = 8  // of a state
	maxLanes  = 16

	sha256Words = 8

	// maxBlocks limits one call of a kernel, which cannot be interrupted, to about 0.2 ms.
	maxBlocks = 1 << 10
)

// An algorithm is one of those that process blocks of 64 bytes in words of 32 bits.
type algorithm struct {
	new   func() hash.Hash
	order interface { // of the bytes of a word
		binary.ByteOrder
		binary.AppendByteOrder
	}
	start []uint32 // the state before the first block
	saved string   // the beginning of the state as the standard library marshals it
}

var (
	algMD5 = algorithm{md5.New, binary.LittleEndian, []uint32{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476}, "md5\x01"}

	algSHA256 = algorithm{sha256.New, binary.BigEndian, []uint32{
		0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
	}, "sha\x03"}
)

// A kernel computes blocks of several messages.
type kernel struct {
	name  string
	alg   algorithm
	lanes int // messages at a time: 2, 8 or 16; 0: one by one, with the standard library

	// fewest is the number of messages from which on it is faster than the standard
	// library, from 1 to lanes. Other lanes compute something, which takes no time.
	fewest int

	// blocks adds n blocks of each message to the state: words, each of 16 messages,
	// of which it uses the first lanes.
	blocks func(state *uint32, messages **byte, n int)
}

// oneByOne is the kernel that uses the standard library.
func (a algorithm) oneByOne() kernel {
	return kernel{name: "one by one", alg: a, fewest: math.MaxInt}
}

// A lane is a message being computed.
type lane struct {
	message int // index, if active
	active  bool
	rest    []byte              // of its whole blocks, then of tail
	tail    []byte              // its end with padding and length, until it is moved to rest
	buf     [2 * blockSize]byte // contains tail
}

// begin makes l compute m.
func (l *lane) begin(i int, m []byte, order binary.ByteOrder) {
	whole := len(m) &^ (blockSize - 1)
	l.message, l.active = i, true
	l.rest = m[:whole]
	n := copy(l.buf[:], m[whole:])
	clear(l.buf[n:])
	l.buf[n] = 0x80
	l.tail = l.buf[:blockSize]
	if n+1+8 > blockSize {
		l.tail = l.buf[:]
	}
	order.PutUint64(l.tail[len(l.tail)-8:], uint64(len(m))<<3)
	if whole == 0 {
		l.rest, l.tail = l.tail, nil
	}
}

// advance removes n blocks and reports whether the message is finished.
func (l *lane) advance(n int) bool {
	l.rest = l.rest[n*blockSize:]
	if len(l.rest) > 0 {
		return false
	}
	l.rest, l.tail = l.tail, nil
	l.active = l.rest != nil
	return !l.active
}

// A batch is the messages of one call.
type batch struct {
	kernel
	messages [][]byte
	sum      func(i int) []byte // an empty slice with space for the digest of message i
	next     int                // the first message that no lane has begun
	begun    [maxLanes]lane
	state    [maxWords][maxLanes]uint32
}

func (b *batch) run() {
	if len(b.messages) < b.fewest {
		h := b.alg.new()
		for i, m := range b.messages {
			h.Reset()
			h.Write(m) // a hash.Hash never fails
			h.Sum(b.sum(i))
		}
		return
	}
	for b.fill() {
		b.compute()
	}
}

// fill begins messages in the free lanes and reports whether any lane is active.
// When only a few messages are left, it finishes them one by one.
func (b *batch) fill() bool {
	active := 0
	for i := range b.lanes {
		l := &b.begun[i]
		if !l.active && b.next < len(b.messages) {
			l.begin(b.next, b.messages[b.next], b.alg.order)
			b.next++
			for w, word := range b.alg.start {
				b.state[w][i] = word
			}
		}
		if l.active {
			active++
		}
	}
	if active < b.fewest {
		for i := range b.lanes {
			if l := &b.begun[i]; l.active && l.tail != nil { // else there are at most two blocks
				b.finish(i)
				active--
			}
		}
	}
	return active > 0
}

// compute computes the blocks that all active lanes have.
func (b *batch) compute() {
	n := maxBlocks
	var some *byte // for the lanes that are not active
	for i := range b.lanes {
		if l := &b.begun[i]; l.active {
			n = min(n, len(l.rest)/blockSize)
			some = &l.rest[0]
		}
	}
	var blocks [maxLanes]*byte
	for i := range blocks {
		blocks[i] = some
		if l := &b.begun[i]; l.active {
			blocks[i] = &l.rest[0]
		}
	}
	b.blocks(&b.state[0][0], &blocks[0], n)
	for i := range b.lanes {
		l := &b.begun[i]
		if !l.active || !l.advance(n) {
			continue
		}
		sum := b.sum(l.message)
		for w := range b.alg.start {
			sum = b.alg.order.AppendUint32(sum, b.state[w][i])
		}
	}
}

// finish computes the rest of the message in lane i with the standard library.
func (b *batch) finish(i int) {
	l := &b.begun[i]
	l.active = false
	m := b.messages[l.message]
	done := len(m)&^(blockSize-1) - len(l.rest)
	state := append(make([]byte, 0, 128), b.alg.saved...)
	for w := range b.alg.start {
		state = binary.BigEndian.AppendUint32(state, b.state[w][i])
	}
	state = append(state, make([]byte, blockSize)...)
	state = binary.BigEndian.AppendUint64(state, uint64(done))
	h := b.alg.new()
	if err := h.(encoding.BinaryUnmarshaler).UnmarshalBinary(state); err != nil {
		h, done = b.alg.new(), 0 // from the beginning
	}
	h.Write(m[done:]) // a hash.Hash never fails
	h.Sum(b.sum(l.message))
}
