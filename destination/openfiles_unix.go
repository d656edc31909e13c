//go:build unix

package destination

import "syscall"

// openFiles is how many files this process may have open at a time; 0 if
// nobody knows.
func openFiles() int {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return 0
	}
	return int(min(uint64(r.Cur), 1<<30))
}
