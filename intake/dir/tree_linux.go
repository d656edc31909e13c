package dir

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"lockstep/intake/internal/filestat"
)

// openTree opens root: with openat2(2), with which the kernel itself keeps a lookup
// inside the root in one call, or with os.Root if the kernel or a sandbox does not
// support it.
func openTree(root string) (tree, error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	f, err := r.Open(".")
	if err != nil {
		_ = r.Close() // nothing was done with it
		return nil, err
	}
	t := &linuxTree{rootTree: rootTree{root: r}, f: f, fd: int(f.Fd())}
	h, err := t.openDir(".")
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		_ = f.Close() // likewise
		return &rootTree{root: r}, nil
	}
	if err != nil {
		_ = t.close() // likewise
		return nil, err
	}
	_ = h.close() // likewise
	return t, nil
}

// linuxTree is a tree based on openat2. The embedded rootTree handles paths that are
// too long for one call.
type linuxTree struct {
	rootTree
	f  *os.File
	fd int
}

// maxOneCall is the length of the longest path passed to the kernel whole; PATH_MAX is 4096.
const maxOneCall = 4000

func (t *linuxTree) close() error { return errors.Join(t.f.Close(), t.rootTree.close()) }

const resolveSame = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS

// openat2 opens rel below the root. EAGAIN means that something was renamed during
// the lookup: it is retried.
func (t *linuxTree) openat2(rel string, flags, resolve uint64) (int, error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: resolve}
	const tries = 64
	for i := 1; ; i++ {
		fd, err := unix.Openat2(t.fd, rel, &how)
		if err == nil {
			return fd, nil
		}
		if err != unix.EINTR && (err != unix.EAGAIN || i > tries) {
			return -1, &fs.PathError{Op: "open", Path: rel, Err: err}
		}
	}
}

func (t *linuxTree) openDir(rel string) (dirHandle, error) {
	if len(rel) > maxOneCall {
		return t.rootTree.openDir(rel)
	}
	fd, err := t.openat2(rel, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, resolveSame)
	if err != nil {
		return nil, err
	}
	return linuxDir(fd), nil
}

func fileFlags(follow bool) (flags, resolve uint64) {
	if follow {
		return unix.O_RDONLY | unix.O_NONBLOCK, unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS
	}
	return unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOFOLLOW, resolveSame
}

func (t *linuxTree) openFile(rel string, follow bool) (treeFile, error) {
	if len(rel) > maxOneCall {
		return t.rootTree.openFile(rel, follow)
	}
	flags, resolve := fileFlags(follow)
	fd, err := t.openat2(rel, flags, resolve)
	if err != nil {
		return nil, err
	}
	return linuxFile(fd), nil
}

func (t *linuxTree) openOS(rel string, follow bool) (*os.File, error) {
	if len(rel) > maxOneCall {
		return t.rootTree.openOS(rel, follow)
	}
	flags, resolve := fileFlags(follow)
	fd, err := t.openat2(rel, flags, resolve)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), rel), nil
}

func (t *linuxTree) lstat(rel string) (filestat.Stat, error) {
	if len(rel) > maxOneCall {
		return t.rootTree.lstat(rel)
	}
	return t.statPath(rel, unix.O_PATH|unix.O_NOFOLLOW, resolveSame)
}

func (t *linuxTree) stat(rel string) (filestat.Stat, error) {
	if len(rel) > maxOneCall {
		return t.rootTree.stat(rel)
	}
	return t.statPath(rel, unix.O_PATH, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_MAGICLINKS)
}

func (t *linuxTree) statPath(rel string, flags, resolve uint64) (filestat.Stat, error) {
	fd, err := t.openat2(rel, flags, resolve)
	if err != nil {
		return filestat.Stat{}, err
	}
	defer unix.Close(fd)
	return linuxFile(fd).stat()
}

// linuxDir is an open directory: a bare descriptor.
type linuxDir int

func (h linuxDir) close() error { return unix.Close(int(h)) }

func (h linuxDir) private() bool {
	st, err := linuxFile(h).stat()
	return err == nil && st.Private
}

var direntBufs = sync.Pool{New: func() any { return new([32 << 10]byte) }}

func (h linuxDir) read(add func(name []byte, k filestat.Kind)) error {
	buf := direntBufs.Get().(*[32 << 10]byte)
	defer direntBufs.Put(buf)
	for {
		n, err := unix.Getdents(int(h), buf[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return &fs.PathError{Op: "readdir", Err: err}
		}
		if n == 0 {
			return nil
		}
		for b := buf[:n]; len(b) > 0; {
			// struct linux_dirent64: inode 8, offset 8, length 2, type 1, name
			size := binary.NativeEndian.Uint16(b[16:])
			name := b[19:size]
			for i, c := range name {
				if c == 0 {
					name = name[:i]
					break
				}
			}
			if s := string(name); s != "." && s != ".." {
				add(name, direntKind(b[18]))
			}
			b = b[size:]
		}
	}
}

func direntKind(t byte) filestat.Kind {
	switch t {
	case unix.DT_REG:
		return filestat.File
	case unix.DT_DIR:
		return filestat.Dir
	case unix.DT_LNK:
		return filestat.Link
	case unix.DT_UNKNOWN:
		return filestat.Unknown
	}
	return filestat.Special
}

func (h linuxDir) lstat(name []byte) (filestat.Stat, error) {
	var st unix.Stat_t
	for {
		switch err := unix.Fstatat(int(h), string(name), &st, unix.AT_SYMLINK_NOFOLLOW); err {
		case nil:
			return linuxStat(&st), nil
		case unix.EINTR:
		default:
			return filestat.Stat{}, &fs.PathError{Op: "lstat", Path: string(name), Err: err}
		}
	}
}

// linuxFile is an open regular file: a bare descriptor.
type linuxFile int

func (f linuxFile) Close() error { return unix.Close(int(f)) }

// Read returns 0, nil at the end, as read(2) does.
func (f linuxFile) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(int(f), p)
		if err == nil {
			return n, nil
		}
		if err != unix.EINTR {
			return 0, &fs.PathError{Op: "read", Err: err}
		}
	}
}

// ReadAt returns fewer bytes than p can hold, and nil, at the end, as pread(2) does.
func (f linuxFile) ReadAt(p []byte, off int64) (int, error) {
	for {
		n, err := unix.Pread(int(f), p, off)
		if err == nil {
			return n, nil
		}
		if err != unix.EINTR {
			return 0, &fs.PathError{Op: "read", Err: err}
		}
	}
}

func (f linuxFile) stat() (filestat.Stat, error) {
	var st unix.Stat_t
	for {
		switch err := unix.Fstat(int(f), &st); err {
		case nil:
			return linuxStat(&st), nil
		case unix.EINTR:
		default:
			return filestat.Stat{}, &fs.PathError{Op: "fstat", Err: err}
		}
	}
}

func linuxStat(st *unix.Stat_t) filestat.Stat {
	s := filestat.Stat{
		Size:   st.Size,
		Mtime:  filestat.Nanos(time.Unix(st.Mtim.Unix())),
		Ctime:  filestat.Nanos(time.Unix(st.Ctim.Unix())),
		Dev:    uint64(st.Dev),
		Ino:    st.Ino,
		Shared: st.Nlink > 1,
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		s.Kind = filestat.File
	case unix.S_IFDIR:
		s.Kind = filestat.Dir
	case unix.S_IFLNK:
		s.Kind = filestat.Link
	default:
		s.Kind = filestat.Special
	}
	s.SetPrivate(fs.FileMode(st.Mode))
	return s
}
