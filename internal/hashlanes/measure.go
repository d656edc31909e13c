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
// unless another one takes a tenth less time with all its lanes.
func (a algorithm) fastest(kernels []kernel) kernel {
	data := make([]byte, maxLanes*probeSize)
	messages := make([][]byte, maxLanes)
	for i := range messages {
		messages[i] = data[i*probeSize:][:probeSize]
	}
	best := a.oneByOne()
	one := best.measure(messages[:1])
	each := one * 9 / 10
	for _, k := range kernels {
		all := k.measure(messages[:k.lanes])
		k.fewest = int(all/one) + 1
		if e := all / time.Duration(k.lanes); e < each {
			best, each = k, e
		}
	}
	return best
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
