//go:build !race

package bitstream_test

const underRace = false
