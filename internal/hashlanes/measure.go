package hashlanes

import (
	"math"
	"sync"
	"time"
)

var (
	bestMD5    = sync.OnceValue(func() kernel { return algMD5.fastest(kernelsMD5()) })
	bestSHA256 = sync.OnceValue(func() kernel { return algSHA256.fastest(kernelsSHA256()) })
)

const (
	probeSize   = 2 << 10 // of the messages that are measured
	probeRounds = 8       // the shortest time counts: other processes disturb the others
)

// fastest measures which kernel is the fastest on this machine: the standard library,
// unless another one takes a tenth less time with all its lanes, and has the same
// results.
func (a algorithm) fastest(kernels []kernel) kernel {
	data := make([]byte, maxLanes*probeSize)
	messages := make([][]byte, maxLanes)
	for i := range messages {
		messages[i] = data[i*probeSize:][:probeSize]
		messages[i][0] = byte(i)
	}
	best := a.oneByOne()
	one := best.measure(messages[:1])
	each := one * 9 / 10
	for _, k := range kernels {
		if !k.agrees(messages) {
			continue
		}
		all := k.measure(messages[:k.lanes])
		k.fewest = int(all/one) + 1
		if e := all / time.Duration(k.lanes); e < each {
			best, each = k, e
		}
	}
	return best
}

// agrees reports whether k has the results of the standard library: on a processor on
// which it has not, a Source would publish wrong hashes.
func (k kernel) agrees(messages [][]byte) bool {
	var got, want [maxLanes][4 * maxWords]byte
	k.fewest = 1
	lanes := batch{kernel: k, messages: messages, sum: func(i int) []byte { return got[i][:0] }}
	lanes.run()
	each := batch{kernel: k.alg.oneByOne(), messages: messages, sum: func(i int) []byte { return want[i][:0] }}
	each.run()
	return got == want
}

// measure returns how long k takes for the messages, at least a nanosecond.
func (k kernel) measure(messages [][]byte) time.Duration {
	var sum [4 * maxWords]byte
	shortest := time.Duration(math.MaxInt64)
	for range probeRounds {
		b := batch{kernel: k, messages: messages, sum: func(int) []byte { return sum[:0] }}
		start := time.Now()
		b.run()
		shortest = min(shortest, time.Since(start))
	}
	return max(1, shortest)
}
