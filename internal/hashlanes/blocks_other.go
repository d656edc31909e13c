//go:build !amd64

package hashlanes

// There is assembly for amd64 only.

func kernelsMD5() []kernel    { return nil }
func kernelsSHA256() []kernel { return nil }

const hasPair = false

func sha256pair(*[2][sha256Words]uint32, *byte, *byte, int) {
	panic("hashlanes: no instructions for SHA-256")
}
