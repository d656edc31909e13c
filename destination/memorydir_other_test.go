//go:build !linux

package destination_test

func memoryDir() string { return "" }
