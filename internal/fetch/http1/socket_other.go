//go:build !unix

package http1

// Supported reports whether this package can be used: whether sockets can be
// read without waiting.
const Supported = false

func quiet(uintptr) bool { return true }

func write(uintptr, []byte) (int, error) { return 0, nil }

func read(uintptr, []byte) (n int, again bool, err error) { return 0, false, nil }
