//go:build !linux

package http1

func acknowledge(uintptr) {}
