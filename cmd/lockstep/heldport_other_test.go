//go:build !unix

package main

func holdAddress() (address string, release func(), err error) {
	return "127.0.0.1:0", func() {}, nil
}
