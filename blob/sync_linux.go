//go:build !portable

package blob

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// syncfsNumber returns the number of the system call, which package syscall
// does not have for every architecture; 0 if unknown.
func syncfsNumber() uintptr {
	switch runtime.GOARCH {
	case "amd64":
		return 306
	case "386":
		return 344
	case "arm":
		return 373
	case "arm64", "riscv64", "loong64":
		return 267
	case "ppc64", "ppc64le":
		return 348
	case "s390x":
		return 338
	}
	return 0
}

// syncfs writes all buffered data of the file system of f.
func syncfs(f *os.File) error {
	if !syncfsTells() {
		return errors.ErrUnsupported
	}
	return control(f, func(fd uintptr) error {
		_, _, errno := syscall.Syscall(syncfsNumber(), fd, 0, 0)
		return failed(errno)
	})
}

// syncfsTells reports whether syncfs exists and reports write errors: from
// Linux 5.8 on.
var syncfsTells = sync.OnceValue(func() bool {
	if syncfsNumber() == 0 {
		return false
	}
	var u syscall.Utsname
	if err := syscall.Uname(&u); err != nil {
		return false
	}
	var b strings.Builder
	for _, c := range u.Release {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	parts := strings.SplitN(b.String(), ".", 3)
	if len(parts) < 2 {
		return false
	}
	major, err := strconv.Atoi(parts[0])
	minor, err1 := strconv.Atoi(parts[1])
	return err == nil && err1 == nil && (major > 5 || major == 5 && minor >= 8)
})

// rename moves a file between two folders. Both are open, so that a link placed
// on the path meanwhile cannot redirect it.
func rename(from *folder, name string, to *folder, toName string) error {
	src, err := from.handle()
	if err != nil {
		return err
	}
	dst, err := to.handle()
	if err != nil {
		return err
	}
	return control(src, func(srcFD uintptr) error {
		return control(dst, func(dstFD uintptr) error {
			for {
				err := syscall.Renameat(int(srcFD), name, int(dstFD), toName)
				if err != syscall.EINTR {
					return err
				}
			}
		})
	})
}

// renameNumber returns the number of renameat2, which package syscall does not
// have for every architecture; 0 if unknown.
func renameNumber() uintptr {
	switch runtime.GOARCH {
	case "amd64":
		return 316
	case "386":
		return 353
	case "arm":
		return 382
	case "arm64", "riscv64", "loong64":
		return 276
	case "ppc64", "ppc64le":
		return 357
	case "s390x":
		return 347
	}
	return 0
}

// renameNew is rename to a name that must not exist; it fails if the name
// exists, or if the file system cannot check that atomically.
func renameNew(from *folder, name string, to *folder, toName string) error {
	const noReplace = 1
	number := renameNumber()
	if number == 0 {
		return errors.ErrUnsupported
	}
	src, err := from.handle()
	if err != nil {
		return err
	}
	dst, err := to.handle()
	if err != nil {
		return err
	}
	names := namePairs.Get().(*[2]cName)
	defer namePairs.Put(names)
	if !names[0].set(name) || !names[1].set(toName) {
		return errors.ErrUnsupported
	}
	return control(src, func(srcFD uintptr) error {
		return control(dst, func(dstFD uintptr) error {
			_, _, errno := syscall.Syscall6(number, srcFD, uintptr(unsafe.Pointer(&names[0])), dstFD, uintptr(unsafe.Pointer(&names[1])), noReplace, 0)
			return failed(errno)
		})
	})
}

// A cName is the name of a file in a directory, as the kernel takes it.
type cName [256]byte

// namePairs has memory for the names of one call each, of which there are many.
var namePairs = sync.Pool{New: func() any { return new([2]cName) }}

// set makes n a name, unless it is too long or cannot be one.
func (n *cName) set(name string) bool {
	if len(name) >= len(n) || strings.IndexByte(name, 0) >= 0 {
		return false
	}
	n[copy(n[:], name)] = 0
	return true
}

// createIn creates a new file in a folder.
func createIn(in *folder, base string, mode fs.FileMode) (*os.File, error) {
	fd, err := openNew(in, base, mode)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), base), nil
}

// createTmpFile is createIn for a file that is only written.
func createTmpFile(in *folder, base string, mode fs.FileMode) (tmpFile, error) {
	fd, err := openNew(in, base, mode)
	if err != nil {
		return nil, err
	}
	return &newFile{fd}, nil
}

// openNew creates a new file in a folder and returns its descriptor.
func openNew(in *folder, base string, mode fs.FileMode) (fd int, err error) {
	dir, err := in.handle()
	if err != nil {
		return -1, err
	}
	names := namePairs.Get().(*[2]cName)
	defer namePairs.Put(names)
	if !names[0].set(base) {
		return -1, syscall.ENAMETOOLONG
	}
	err = control(dir, func(dirFD uintptr) error {
		for {
			const flag = syscall.O_RDWR | syscall.O_CREAT | syscall.O_EXCL | syscall.O_NOFOLLOW | syscall.O_CLOEXEC | syscall.O_LARGEFILE
			r, _, errno := syscall.Syscall6(syscall.SYS_OPENAT, dirFD, uintptr(unsafe.Pointer(&names[0])), flag, uintptr(mode), 0, 0)
			if fd = int(r); errno != syscall.EINTR {
				return failed(errno)
			}
		}
	})
	return fd, err
}

// setMode sets the mode of the file base in a directory of the store's own.
func setMode(in *folder, base string, mode fs.FileMode) error {
	dir, err := in.handle()
	if err != nil {
		return err
	}
	return control(dir, func(fd uintptr) error {
		for {
			if err := syscall.Fchmodat(int(fd), base, uint32(mode), 0); !errors.Is(err, syscall.EINTR) {
				return err
			}
		}
	})
}

// utimeOmit leaves a time unchanged.
const utimeOmit = 0x3ffffffe

// setModTime sets the time of an open file.
func setModTime(f tmpFile, _ *os.Root, _ string, mod time.Time) error {
	switch f := f.(type) {
	case *newFile:
		return f.setModTime(mod)
	case *os.File:
		return control(f, func(fd uintptr) error { return futimens(fd, mod) })
	}
	return errors.ErrUnsupported
}

func futimens(fd uintptr, mod time.Time) error {
	ts := [2]syscall.Timespec{{Nsec: utimeOmit}, syscall.NsecToTimespec(mod.UnixNano())}
	_, _, errno := syscall.Syscall6(syscall.SYS_UTIMENSAT, fd, 0, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
	return failed(errno)
}

func failed(errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

// control calls do with the descriptor, which stays open meanwhile.
func control(f *os.File, do func(fd uintptr) error) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	if err1 := c.Control(func(fd uintptr) { err = do(fd) }); err1 != nil {
		return err1
	}
	return err
}
