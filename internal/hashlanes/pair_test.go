package hashlanes

import (
	"crypto/sha256"
	"hash"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
)

func needsPairs(t *testing.T) {
	t.Helper()
	if !hasPair {
		t.Skip("the processor has no instructions for SHA-256")
	}
}

// TestOffered has one message computed by the writer of another, from places in a block
// and in lengths that differ.
func TestOffered(t *testing.T) {
	needsPairs(t)
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		a := randomBytes(1, leastPaired+rnd.IntN(3*leastPaired))
		b := randomBytes(2, leastPaired+rnd.IntN(3*leastPaired))
		m := &paired{Hash: sha256.New(), done: make(chan int, 1)}
		head := rnd.IntN(5) * blockSize // what is offered begins with a block
		rest := m.alone(a, head)
		m.offered = rest
		if !waiting.CompareAndSwap(nil, m) {
			t.Fatal("another test uses the place")
		}
		other := &paired{Hash: sha256.New()}
		first := rnd.IntN(100)
		if rest := len(b) - first; rest < leastPaired+blockSize {
			first = 0
		}
		_, _ = other.Write(b[:first])
		_, _ = other.Write(b[first:])
		k := <-m.done
		if k == 0 || k%blockSize != 0 {
			t.Fatalf("%d bytes of %d were computed", k, len(rest))
		}
		_, _ = m.Write(rest[k:])
		if [sha256.Size]byte(m.Sum(nil)) != sha256.Sum256(a) {
			t.Errorf("the message that was offered, %d bytes from %d on, has a wrong digest", len(a), head)
		}
		if [sha256.Size]byte(other.Sum(nil)) != sha256.Sum256(b) {
			t.Errorf("the other message, %d bytes in writes of %d and the rest, has a wrong digest", len(b), first)
		}
	}
}

// TestPairs computes many messages at a time, in writes of all sizes.
func TestPairs(t *testing.T) {
	needsPairs(t)
	data := randomBytes(7, 2<<20)
	var work sync.WaitGroup
	for i := range 12 {
		work.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 1))
			var h hash.Hash = &paired{Hash: sha256.New()}
			for range 10 {
				m := data[rnd.IntN(1000):][:rnd.IntN(len(data)-1000)]
				h.Reset()
				for rest := m; len(rest) > 0; {
					n := min(len(rest), 1+rnd.IntN(1<<(4+rnd.IntN(15))))
					_, _ = h.Write(rest[:n])
					rest = rest[n:]
				}
				if [sha256.Size]byte(h.Sum(nil)) != sha256.Sum256(m) {
					t.Errorf("digest of %d bytes is wrong", len(m))
				}
			}
		})
	}
	work.Wait()
	if m := waiting.Load(); m != nil {
		t.Error("a message still waits for another")
	}
}

// BenchmarkPairs hashes four messages at a time, in writes of 128 KB.
func BenchmarkPairs(b *testing.B) {
	for name, make := range map[string]func() hash.Hash{"apart": sha256.New, "together": NewSHA256} {
		b.Run(name, func(b *testing.B) {
			data := randomBytes(1, 128<<10)
			b.SetBytes(4 * 64 * int64(len(data)))
			for b.Loop() {
				var work sync.WaitGroup
				for range 4 {
					work.Go(func() {
						h := make()
						for range 64 {
							_, _ = h.Write(data)
						}
						_, _ = io.Discard.Write(h.Sum(nil))
					})
				}
				work.Wait()
			}
		})
	}
}
