package http1

import "syscall"

// acknowledge acknowledges at once the part of a response that has arrived. Some
// servers send the header separately and hold back the body until the header is
// acknowledged; a kernel that delays acknowledgements does so for 40 ms.
func acknowledge(fd uintptr) {
	_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK, 1) // only slower if it fails
}
