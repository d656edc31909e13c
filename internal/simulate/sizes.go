package simulate

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Sizes is a distribution of the sizes of resources: from Min to Max bytes,
// each order of magnitude equally often. The zero value means the default.
type Sizes struct{ Min, Max int64 }

var defaultSizes = Sizes{4096, 4096}

// ErrSizes reports an invalid distribution of sizes.
var ErrSizes = errors.New("want a size as 4KB, or two as 1KB-10MB")

// maxSize prevents overflows of lengths.
const maxSize = 1 << 50

// ParseSizes reads "4KB", or "1KB-10MB" for all sizes between. Units are B, KB,
// MB, GB and TB, of 1024.
func ParseSizes(s string) (Sizes, error) {
	low, high, ok := strings.Cut(s, "-")
	if !ok {
		high = low
	}
	a, err := parseSize(low)
	if err != nil {
		return Sizes{}, fmt.Errorf("%q: %w", s, err)
	}
	b, err := parseSize(high)
	if err != nil {
		return Sizes{}, fmt.Errorf("%q: %w", s, err)
	}
	if a > b {
		return Sizes{}, fmt.Errorf("%q: %w, the smaller one first", s, ErrSizes)
	}
	if b == 0 {
		return Sizes{}, fmt.Errorf("%q: %w, above 0", s, ErrSizes)
	}
	return Sizes{a, b}, nil
}

func parseSize(s string) (int64, error) {
	s = strings.ToUpper(strings.TrimSpace(s))
	digits := strings.TrimRight(s, "KMGTIB")
	power := map[string]int{"": 0, "B": 0, "K": 1, "KB": 1, "KIB": 1, "M": 2, "MB": 2, "MIB": 2, "G": 3, "GB": 3, "GIB": 3, "T": 4, "TB": 4, "TIB": 4}
	p, ok := power[s[len(digits):]]
	n, err := strconv.ParseFloat(digits, 64)
	if !ok || err != nil || !(n >= 0) {
		return 0, ErrSizes
	}
	for range p {
		n *= 1024
	}
	if n > maxSize {
		return 0, fmt.Errorf("%w, at most %d TB", ErrSizes, int64(maxSize)>>40)
	}
	return int64(n), nil
}

// pick returns the size determined by key.
func (s Sizes) pick(key uint64) int64 {
	if s.Min == s.Max {
		return s.Min
	}
	// A version's bytes and its size must not be determined by the same word.
	share := float64(mix64(key^golden)>>11) / (1 << 53)
	low := math.Log(float64(s.Min) + 1)
	high := math.Log(float64(s.Max) + 1)
	return min(max(int64(math.Exp(low+share*(high-low)))-1, s.Min), s.Max)
}
