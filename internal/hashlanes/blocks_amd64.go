package hashlanes

import "golang.org/x/sys/cpu"

//go:noescape
func md5x8(state *uint32, messages **byte, n int)

//go:noescape
func md5x16(state *uint32, messages **byte, n int)

//go:noescape
func sha256x16(state *uint32, messages **byte, n int)

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
	if !hasAVX512() {
		return nil
	}
	return []kernel{{"AVX-512", algSHA256, 16, 1, sha256x16}}
}

func hasAVX512() bool { return cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512BW }
