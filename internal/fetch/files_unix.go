//go:build unix

package fetch

import "syscall"

// OpenFiles returns how many files this process may have open.
func OpenFiles() int {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 1024
	}
	return int(min(uint64(l.Cur), 1<<20))
}
