//go:build unix

package main

import (
	"net/netip"
	"net/url"
	"syscall"
)

// holdPort keeps other processes from getting the port of address, on which none
// listens any longer, until release is called: a connection to it is refused, and no
// other server of a test answers. A process that asks for this very port gets it.
func holdPort(address string) (release func(), err error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	at, err := netip.ParseAddrPort(u.Host)
	if err != nil || !at.Addr().Is4() {
		return func() {}, nil // a name, or none at all
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, err
	}
	syscall.CloseOnExec(fd)
	if err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err == nil {
		err = syscall.Bind(fd, &syscall.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()})
	}
	if err != nil {
		_ = syscall.Close(fd) // err is more important
		return nil, err
	}
	return func() { _ = syscall.Close(fd) }, nil
}
