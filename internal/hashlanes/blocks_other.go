//go:build !amd64

package hashlanes

// There is assembly for amd64 only.

func kernelsMD5() []kernel    { return nil }
func kernelsSHA256() []kernel { return nil }
