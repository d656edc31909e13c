//go:build !portable

package blob

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// A newFile is a file that createIn has created. It does without what an [os.File]
// costs for each small blob: a system call, several allocations and a finalizer. One
// goroutine uses it at a time, and has to close it.
type newFile struct{ fd int } // -1: closed

// Write implements [io.Writer].
func (f *newFile) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		err = f.retry(func(fd int) (err error) {
			m, err = syscall.Write(fd, p[n:min(len(p), n+1<<30)])
			return err
		})
		if err == nil && m <= 0 {
			err = io.ErrShortWrite
		}
		n += max(m, 0)
	}
	return n, err
}

// Sync makes the bytes durable.
func (f *newFile) Sync() error { return f.retry(syscall.Fsync) }

// Chmod sets the mode.
func (f *newFile) Chmod(mode fs.FileMode) error {
	return f.retry(func(fd int) error { return syscall.Fchmod(fd, uint32(mode.Perm())) })
}

func (f *newFile) setModTime(mod time.Time) error {
	return f.retry(func(fd int) error { return futimens(uintptr(fd), mod) })
}

// Close implements [io.Closer].
func (f *newFile) Close() error {
	if f.fd < 0 {
		return os.ErrClosed
	}
	err := syscall.Close(f.fd)
	f.fd = -1
	if errors.Is(err, syscall.EINTR) {
		return nil // Linux closes it all the same
	}
	return err
}

// retry calls do until no signal has interrupted it.
func (f *newFile) retry(do func(fd int) error) error {
	if f.fd < 0 {
		return os.ErrClosed
	}
	for {
		if err := do(f.fd); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
