//go:build !unix

package main

func holdPort(string) (release func(), err error) { return func() {}, nil }
