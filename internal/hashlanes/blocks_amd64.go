package hashlanes

import (
	"unsafe"

	"github.com/klauspost/cpuid/v2"
	"golang.org/x/sys/cpu"
)

//go:noescape
func md5x8(state *uint32, messages **byte, n int)

//go:noescape
func md5x16(state *uint32, messages **byte, n int)

//go:noescape
func sha256x16(state *uint32, messages **byte, n int)

// sha256pair adds n blocks of two messages to their states.
//
//go:noescape
func sha256pair(state *[2][sha256Words]uint32, first, second *byte, n int)

// hasPair reports whether the processor has the instructions of sha256pair.
var hasPair = cpuid.CPU.Supports(cpuid.SHA, cpuid.SSSE3, cpuid.SSE4)

// kernelsMD5 returns the kernels for which the processor has the instructions.
func kernelsMD5() []kernel {
	var ks []kernel
	if cpu.X86.HasAVX2 {
		ks = append(ks, kernel{"AVX2", algMD5, 8, 1, md5x8})
	}
	if hasAVX512() {
		ks = append(ks, kernel{"AVX-512", algMD5, 16, 1, md5x16})
	}
	return ks
}

// kernelsSHA256 does the same. With AVX2, 8 lanes are slower than the instructions
// for SHA-256 that most processors with AVX2 have.
func kernelsSHA256() []kernel {
	var ks []kernel
	if hasPair {
		ks = append(ks, kernel{"pairs", algSHA256, 2, 2, sha256x2})
	}
	if hasAVX512() {
		ks = append(ks, kernel{"AVX-512", algSHA256, 16, 1, sha256x16})
	}
	return ks
}

// sha256x2 is sha256pair as a kernel.
func sha256x2(state *uint32, messages **byte, n int) {
	words := (*[sha256Words][maxLanes]uint32)(unsafe.Pointer(state))
	both := (*[2]*byte)(unsafe.Pointer(messages))
	var pair [2][sha256Words]uint32
	for w := range words {
		pair[0][w], pair[1][w] = words[w][0], words[w][1]
	}
	sha256pair(&pair, both[0], both[1], n)
	for w := range words {
		words[w][0], words[w][1] = pair[0][w], pair[1][w]
	}
}

func hasAVX512() bool { return cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512BW }
