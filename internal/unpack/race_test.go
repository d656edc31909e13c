//go:build race

package unpack_test

// raced says that the race detector watches: what it adds is not measured.
const raced = true
