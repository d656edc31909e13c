package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// garbagePercent makes the collector run half as often as usual while little
	// memory is in use. Most of what a run that copies resources allocates is
	// garbage with the next resource; this takes a sixth off its time.
	garbagePercent = 200

	// leastMemory and mostMemory bound the memory of the Go runtime above which
	// garbage is collected as often as necessary. The process also has pages of
	// its executable and the caches of SQLite, 60 MiB together, for which Go's
	// limit does not account: an ordinary run stays below 128 MiB with them, and a
	// run that a hostile Source makes store as much as it can below 256 MiB.
	leastMemory = 56 << 20
	mostMemory  = 176 << 20

	// spareMemory is for stacks, the runtime's own data and garbage.
	spareMemory = 24 << 20
)

// tuneGarbage configures the garbage collector for a run that copies or compares resources,
// except for what the user has set with Go's own variables.
func tuneGarbage() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(leastMemory)
		followLiveMemory(leastMemory)
	}
}

// followLiveMemory adjusts the memory limit after each garbage collection. limit
// is the present one.
func followLiveMemory(limit int64) {
	type sentinel struct{ _ *byte } // the pointer gives it a place of its own in memory
	runtime.AddCleanup(new(sentinel), func(limit int64) {
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(sample)
		next := memoryLimit(int64(sample[0].Value.Uint64()))
		if next != limit {
			debug.SetMemoryLimit(next)
		}
		followLiveMemory(next)
	}, limit)
}

// memoryLimit returns the limit for a number of bytes that are in use. A limit
// close to them would make the collector run all the time.
func memoryLimit(live int64) int64 {
	return min(max(2*live+spareMemory, leastMemory), mostMemory)
}
