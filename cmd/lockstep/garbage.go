package main

import (
	"os"
	"runtime/debug"
)

// How a run that copies resources collects garbage. Most of what it allocates
// is gone with the next resource, and what stays is small: collecting half as
// often takes a sixth off its time, for some 20 MB. Near the limit garbage is
// collected as often as need be, so that what a hostile Source makes us hold
// stays below what is promised.
const (
	garbagePercent = 200
	garbageLimit   = 224 << 20
)

// tuneGarbage sets that, unless the user did with Go's own variables.
func tuneGarbage() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(garbageLimit)
	}
}
