package main

import (
	"fmt"
	"syscall"
)

// holdAddress returns an address of this machine whose port no other process gets by
// chance until release is called, neither before a server listens on it nor after that
// has ended: a connection is refused then, and no server of another test answers. A
// process that asks for this very port gets it.
func holdAddress() (address string, release func(), err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return "", nil, err
	}
	syscall.CloseOnExec(fd)
	if err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err == nil {
		err = syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	var at syscall.Sockaddr
	if err == nil {
		at, err = syscall.Getsockname(fd)
	}
	if err != nil {
		_ = syscall.Close(fd) // err is more important
		return "", nil, err
	}
	return fmt.Sprintf("127.0.0.1:%d", at.(*syscall.SockaddrInet4).Port), func() { _ = syscall.Close(fd) }, nil
}
