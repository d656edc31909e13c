//go:build !amd64

package byteset

const hasAVX2 = false

func index(*byte, int, *[32]byte) int { panic("byteset: no vector instructions") }
