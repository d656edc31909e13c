//go:build !portable

package blob

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// openat2 resolves a whole name at once, and fails at any link: describing a
// blob takes three system calls, while the walk takes four for each directory
// on the path. Without openat2 (before Linux 5.6, in some sandboxes) the walk
// is used.
const (
	sysOpenat2 = 437 // on every architecture

	resolveNoMagiclinks = 0x02
	resolveNoSymlinks   = 0x04
	resolveBeneath      = 0x08

	oPath = 0x200000
)

type openHow struct{ flags, mode, resolve uint64 }

// openBelow opens name, a whole path, below a folder. Of its errors only
// ErrNotExist is conclusive; after any other one the caller has to walk.
func openBelow(top *folder, name string, flag int) (int, error) {
	f, err := top.handle()
	if err != nil {
		return -1, err
	}
	p, err := syscall.BytePtrFromString(name)
	if err != nil {
		return -1, err
	}
	how := openHow{
		flags:   uint64(flag | syscall.O_CLOEXEC | syscall.O_NOFOLLOW),
		resolve: resolveNoMagiclinks | resolveNoSymlinks | resolveBeneath,
	}
	fd := -1
	err = control(f, func(dir uintptr) error {
		r, _, errno := syscall.Syscall6(sysOpenat2, dir, uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
		if errno == 0 {
			fd = int(r)
		}
		return failed(errno)
	})
	if errors.Is(err, syscall.ENOENT) {
		err = ErrNotExist
	}
	return fd, err
}

// look describes a blob by its whole name.
func look(top *folder, name string) (Info, error) {
	fd, err := openBelow(top, name, oPath)
	if err != nil {
		return Info{}, err
	}
	var st syscall.Stat_t
	err = syscall.Fstat(fd, &st)
	_ = syscall.Close(fd) // nothing was written
	if err == nil && st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		err = errors.ErrUnsupported
	}
	return Info{Name: name, Size: st.Size, ModTime: time.Unix(st.Mtim.Unix())}, err
}

// lookInto opens a blob by its whole name, after describing it: opening a
// device may have side effects.
func lookInto(top *folder, name string) (*os.File, fs.FileInfo, error) {
	if _, err := look(top, name); err != nil {
		return nil, nil, err
	}
	fd, err := openBelow(top, name, os.O_RDONLY|nonblock)
	if err != nil {
		return nil, nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.ErrUnsupported
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, nil, err
	}
	return f, info, nil
}
