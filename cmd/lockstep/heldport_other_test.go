//go:build !linux

package main

// holdAddress returns an address that has the system choose a port: it cannot be kept where
// one that is bound cannot be bound again.
func holdAddress() (address string, release func(), err error) {
	return "127.0.0.1:0", func() {}, nil
}
