package recent

import (
	"math"
	"time"
)

// latencies is how many classes of durations there are: the last has those from about two hours.
const latencies = 26

// shortest is the upper bound of the first class. That of each other class is twice as long.
const shortest = 250 * time.Microsecond

// A Latency counts durations by class. The zero value is empty.
type Latency [latencies]int64

// Add counts a duration n times.
func (l *Latency) Add(d time.Duration, n int64) {
	i := 0
	for bound := shortest; i < latencies-1 && d > bound; i++ {
		bound *= 2
	}
	l[i] += n
}

// Count returns how many durations were counted.
func (l *Latency) Count() (n int64) {
	for _, c := range l {
		n += c
	}
	return n
}

// Quantile returns the duration that the share q of all do not exceed, estimated within its
// class; 0 if there are none.
func (l *Latency) Quantile(q float64) time.Duration {
	rank := q * float64(l.Count())
	if rank == 0 {
		return 0
	}
	upper, below := float64(shortest), 0.0
	for i, c := range l {
		if c > 0 && below+float64(c) >= rank {
			share := (rank - below) / float64(c)
			if i == 0 {
				return time.Duration(share * upper)
			}
			return time.Duration(upper / 2 * math.Exp2(share))
		}
		below += float64(c)
		upper *= 2
	}
	return time.Duration(upper) // unreachable: the classes have all durations
}
