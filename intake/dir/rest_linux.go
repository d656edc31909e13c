package dir

import (
	"errors"

	"golang.org/x/sys/unix"

	"lockstep/intake/internal/filestat"
)

// atRest reports whether rel is a regular file that no process has open for
// writing, as far as the kernel reports it: only then does it grant a read lease
// (fcntl(2)). It grants none on files of other users and on some file systems. The
// lease is released at once; a process that opens the file meanwhile waits that long.
func (t *linuxTree) atRest(rel string) bool {
	if len(rel) > maxOneCall {
		return false
	}
	fd, err := t.openat2(rel, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_NOCTTY, resolveSame)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	st, err := linuxFile(fd).stat()
	if err != nil || st.Kind != filestat.File {
		return false
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK); err != nil {
		return false
	}
	for {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
		if !errors.Is(err, unix.EINTR) {
			return true // closing releases the lease in any case
		}
	}
}
