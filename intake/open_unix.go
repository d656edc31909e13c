//go:build unix

package intake

import "syscall"

// openFlags let an open return at once, whatever has taken the file's place.
const openFlags = syscall.O_NONBLOCK
