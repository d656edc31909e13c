//go:build unix

package filestat

import "syscall"

// OpenFlags keep an open from blocking, for example on a pipe that replaced the file.
const OpenFlags = syscall.O_NONBLOCK
