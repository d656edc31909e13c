//go:build !race

package unpack_test

const raced = false
