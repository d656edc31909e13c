//go:build !linux

package bench

// growthRoles is empty: the benchmarks of large collections run on Linux only.
var growthRoles map[string]func(args []string) error
