package hashlanes

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"testing"
)

// digest returns the digest of m by the standard library.
func (a algorithm) digest(m []byte) []byte {
	h := a.new()
	h.Write(m)
	return h.Sum(nil)
}

// sums returns the digests that k computes.
func (k kernel) sums(messages [][]byte) [][4 * maxWords]byte {
	got := make([][4 * maxWords]byte, len(messages))
	b := batch{kernel: k, messages: messages, sum: func(i int) []byte { return got[i][:0] }}
	b.run()
	return got
}

// check compares the digests that k computes with those of the standard library.
func check(t *testing.T, k kernel, messages [][]byte) {
	t.Helper()
	got := k.sums(messages)
	for i, m := range messages {
		if want := k.alg.digest(m); !bytes.Equal(got[i][:len(want)], want) {
			t.Fatalf("%s from %d messages: digest of message %d of %d, %d bytes = %x, want %x", k.name, k.fewest, i, len(messages), len(m), got[i][:len(want)], want)
		}
	}
}

// allKernels returns all kernels that the processor has, with several limits below
// which messages are computed one by one.
func allKernels() []kernel {
	all := []kernel{bestMD5(), bestSHA256(), algMD5.oneByOne(), algSHA256.oneByOne()}
	for _, k := range append(kernelsMD5(), kernelsSHA256()...) {
		for _, k.fewest = range []int{1, 2, 5} {
			if k.fewest <= k.lanes {
				all = append(all, k)
			}
		}
	}
	return all
}

func eachKernel(t *testing.T, f func(*testing.T, kernel)) {
	for _, k := range allKernels() {
		t.Run(fmt.Sprintf("%d words %s %d", len(k.alg.start), k.name, k.fewest), func(t *testing.T) { t.Parallel(); f(t, k) })
	}
}

func randomBytes(seed byte, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

func TestEverySize(t *testing.T) {
	t.Parallel()
	eachKernel(t, func(t *testing.T, k kernel) {
		data := randomBytes(1, 400)
		var sizes [][]byte
		for n := range 300 {
			m := data[n%64 : n%64+n]
			check(t, k, [][]byte{m})
			check(t, k, [][]byte{m, m[:n/2], nil, data[:64], m, data[:n]})
			sizes = append(sizes, m)
		}
		check(t, k, sizes)
		for n := range 40 {
			check(t, k, sizes[100:100+n])
		}
	})
}

func TestRandomSizes(t *testing.T) {
	t.Parallel()
	eachKernel(t, func(t *testing.T, k kernel) {
		rnd := rand.New(rand.NewPCG(1, 2))
		data := randomBytes(2, 300<<10)
		for range 30 {
			messages := make([][]byte, rnd.IntN(70))
			for i := range messages {
				from := rnd.IntN(1 << 10)
				n := rnd.IntN(1 << rnd.IntN(15))
				if rnd.IntN(100) == 0 {
					n = rnd.IntN(200 << 10) // more than one call of a kernel
				}
				messages[i] = data[from : from+n]
			}
			check(t, k, messages)
		}
	})
}

// A kernel with wrong results is not used, however fast it is.
func TestWrongKernel(t *testing.T) {
	t.Parallel()
	wrong := kernel{name: "wrong", alg: algMD5, lanes: maxLanes, fewest: 1, blocks: func(*uint32, **byte, int) {}}
	if k := algMD5.fastest([]kernel{wrong}); k.blocks != nil {
		t.Errorf("fastest = %s, want the standard library", k.name)
	}
	for _, k := range append(kernelsMD5(), kernelsSHA256()...) {
		messages := make([][]byte, maxLanes)
		for i := range messages {
			messages[i] = randomBytes(byte(i), probeSize)
		}
		if !k.agrees(messages) {
			t.Errorf("%s has other results than the standard library", k.name)
		}
	}
}

func TestSums(t *testing.T) {
	t.Parallel()
	data := randomBytes(3, 5000)
	for n := range 40 {
		messages := make([][]byte, n)
		for i := range messages {
			messages[i] = data[i : i+i*n]
		}
		md5s, sha256s := make([][md5.Size]byte, n), make([][sha256.Size]byte, n)
		MD5(md5s, messages)
		SHA256(sha256s, messages)
		for i, m := range messages {
			if md5s[i] != md5.Sum(m) {
				t.Errorf("MD5 of message %d of %d is wrong", i, n)
			}
			if sha256s[i] != sha256.Sum256(m) {
				t.Errorf("SHA-256 of message %d of %d is wrong", i, n)
			}
		}
	}
}

func FuzzSums(f *testing.F) {
	f.Add([]byte("abc"), uint16(3), uint8(20))
	f.Add(randomBytes(4, 3000), uint16(700), uint8(16))
	kernels := allKernels()
	f.Fuzz(func(t *testing.T, data []byte, step uint16, count uint8) {
		messages := make([][]byte, count%40)
		for i := range messages {
			n := (i * int(step)) % (len(data) + 1)
			messages[i] = data[len(data)-n:]
		}
		for _, k := range kernels {
			check(t, k, messages)
		}
	})
}

func BenchmarkSums(b *testing.B) {
	for _, k := range append([]kernel{algMD5.oneByOne(), algSHA256.oneByOne()}, append(kernelsMD5(), kernelsSHA256()...)...) {
		for _, size := range []int{100, 1000, 4096, 65536} {
			messages := make([][]byte, 32)
			for i := range messages {
				messages[i] = randomBytes(byte(i), size)
			}
			var sum [4 * maxWords]byte
			b.Run(fmt.Sprintf("%d words %s %d", len(k.alg.start), k.name, size), func(b *testing.B) {
				b.SetBytes(int64(size * len(messages)))
				for b.Loop() {
					c := batch{kernel: k, messages: messages, sum: func(int) []byte { return sum[:0] }}
					c.run()
				}
			})
		}
	}
}

// BenchmarkMeasure is what the choice of the kernels costs.
func BenchmarkMeasure(b *testing.B) {
	for b.Loop() {
		algMD5.fastest(kernelsMD5())
		algSHA256.fastest(kernelsSHA256())
	}
}
