package byteset

import "golang.org/x/sys/cpu"

var hasAVX2 = cpu.X86.HasAVX2

// index returns the position of the first of the n bytes at b, at least 32, that is
// in the set of halves, or n.
//
//go:noescape
func index(b *byte, n int, halves *[32]byte) int
