//go:build unix

package http1

import "syscall"

// Supported reports whether this package can be used: whether sockets can be
// read without waiting.
const Supported = true

// quiet reports whether a socket is open and has nothing to read.
func quiet(fd uintptr) bool {
	var one [1]byte
	for {
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if err != syscall.EINTR {
			return err == syscall.EAGAIN
		}
	}
}

// write writes what fits into the socket's buffer.
func write(fd uintptr, b []byte) (int, error) {
	for {
		n, err := syscall.Write(int(fd), b)
		switch err {
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, nil
		default:
			return max(n, 0), err
		}
	}
}

// read reads what has arrived; again reports that this is nothing yet.
func read(fd uintptr, p []byte) (n int, again bool, err error) {
	for {
		n, err := syscall.Read(int(fd), p)
		switch err {
		case nil:
			return n, false, nil
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, true, nil
		default:
			return 0, false, err
		}
	}
}
