//go:build race

package unpack_test

// raced reports whether the race detector is enabled: its overhead is not
// measured.
const raced = true
