package hashlanes

import (
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"hash"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// NewSHA256 returns a hash.Hash for SHA-256, like sha256.New, but where it is faster on
// this machine, large writes to two of them are computed together while the processors
// are busy. Each is for one goroutine at a time.
func NewSHA256() hash.Hash {
	if !pairs() {
		return sha256.New()
	}
	return &paired{Hash: sha256.New()}
}

// pairs reports whether computing two messages together is faster here.
var pairs = sync.OnceValue(func() bool {
	if !hasPair {
		return false
	}
	const size = probeSize
	a, b := make([]byte, size), make([]byte, size)
	together, apart := time.Hour, time.Hour
	for range probeRounds {
		one, other := paired{Hash: sha256.New()}, paired{Hash: sha256.New()}
		a[0]++
		start := time.Now()
		compute(&one, &other, a, b)
		middle := time.Now()
		x, y := sha256.Sum256(a), sha256.Sum256(b)
		together, apart = min(together, middle.Sub(start)), min(apart, time.Since(middle))
		if [sha256.Size]byte(one.Sum(nil)) != x || [sha256.Size]byte(other.Sum(nil)) != y {
			return false
		}
	}
	return together < apart*9/10
})

const (
	// leastPaired is the size of writes that are worth it: in their time of 20 µs,
	// handing them over is not noticed.
	leastPaired = 32 << 10

	// After an offer that no other message has taken, a message makes the next one after
	// leastAlone bytes, then after twice as many each time, up to mostAlone.
	leastAlone = 64 << 10
	mostAlone  = 4 << 20
)

// waiting is the message whose writer waits for that of another.
var waiting atomic.Pointer[paired]

// A paired is a message of which some blocks are computed together with those of
// others.
type paired struct {
	hash.Hash       // its state
	size      int64 // bytes so far: modulo 64, those that are in no whole block yet
	skip      int   // bytes to be computed alone before the next offer
	skipped   int   // what skip was set to last

	offered []byte   // to the writer of another message, while waiting
	done    chan int // receives how many of these bytes that one has computed
	saved   [128]byte
}

// Write implements [hash.Hash]. It never fails.
func (m *paired) Write(p []byte) (int, error) {
	n := len(p)
	if len(p) >= leastPaired {
		p = m.alone(p, int(-m.size&(blockSize-1)))
	}
	for len(p) >= leastPaired {
		if other := waiting.Swap(nil); other != nil {
			k := compute(m, other, p, other.offered)
			other.done <- k
			m.skip, m.skipped = 0, 0
			p = p[k:]
			continue
		}
		if m.skip <= 0 {
			if k := m.offer(p); k > 0 {
				p = p[k:]
				continue
			}
		}
		k := min(len(p)&^(blockSize-1), leastAlone)
		m.skip -= k
		p = m.alone(p, k)
	}
	m.alone(p, len(p))
	return n, nil
}

// alone computes the first n bytes of p and returns the others.
func (m *paired) alone(p []byte, n int) []byte {
	_, _ = m.Hash.Write(p[:n]) // a hash.Hash never fails
	m.size += int64(n)
	return p[n:]
}

// offer lets the writer of another message compute p together with it, if it comes
// while others have this processor, and returns how many bytes it has computed.
func (m *paired) offer(p []byte) int {
	if m.done == nil {
		m.done = make(chan int, 1)
	}
	m.offered = p
	defer func() { m.offered = nil }()
	if !waiting.CompareAndSwap(nil, m) {
		return 0
	}
	runtime.Gosched()
	if waiting.CompareAndSwap(m, nil) {
		m.skipped = min(max(leastAlone, 2*m.skipped), mostAlone)
		m.skip = m.skipped
		return 0
	}
	n := <-m.done
	m.skip, m.skipped = 0, 0
	return n
}

// compute adds the blocks that both a and b have to the messages, and returns their
// size.
func compute(m, other *paired, a, b []byte) int {
	var state [2][sha256Words]uint32
	m.save(&state[0])
	other.save(&state[1])
	n := min(len(a), len(b)) &^ (blockSize - 1)
	for at := 0; at < n; {
		k := min(n-at, maxBlocks*blockSize)
		sha256pair(&state, &a[at], &b[at], k/blockSize)
		at += k
	}
	m.restore(&state[0], n)
	other.restore(&state[1], n)
	return n
}

// The state as the standard library marshals it: after the four bytes of its name the
// words, then the bytes that are in no whole block, here none, and the size.
const savedWords, savedSize = 4, 4 + 4*sha256Words + blockSize

// save sets words to the state.
func (m *paired) save(words *[sha256Words]uint32) {
	b, _ := m.Hash.(encoding.BinaryAppender).AppendBinary(m.saved[:0]) // never fails for crypto/sha256
	for i := range words {
		words[i] = binary.BigEndian.Uint32(b[savedWords+4*i:])
	}
}

// restore sets the state, after save, to words, with n more bytes.
func (m *paired) restore(words *[sha256Words]uint32, n int) {
	b := m.saved[:savedSize+8]
	for i, w := range words {
		binary.BigEndian.PutUint32(b[savedWords+4*i:], w)
	}
	m.size += int64(n)
	size := b[savedSize:]
	binary.BigEndian.PutUint64(size, binary.BigEndian.Uint64(size)+uint64(n))
	_ = m.Hash.(encoding.BinaryUnmarshaler).UnmarshalBinary(b) // as above
}

// Reset implements [hash.Hash].
func (m *paired) Reset() {
	m.Hash.Reset()
	m.size = 0
}
