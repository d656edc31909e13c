// Package garbage configures the garbage collector for each kind of process: how often
// it runs while little memory is in use, and when it runs as often as necessary.
package garbage

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

	// hubGarbagePercent is the same for a hub: what a delivery allocates is garbage
	// when the subscriber has answered. It takes a twentieth off the processor time
	// of a delivery.
	hubGarbagePercent = 400

	// leastMemory and mostMemory bound the memory of the Go runtime above which
	// garbage is collected as often as necessary. The process also has pages of
	// its executable and the caches of SQLite, 60 MiB together, for which Go's
	// limit does not account: an ordinary run stays below 128 MiB with them, and a
	// run that a hostile Source makes store as much as it can below 256 MiB.
	leastMemory = 56 << 20
	mostMemory  = 176 << 20

	// spareMemory is for stacks, the runtime's own data and garbage.
	spareMemory = 24 << 20

	// upstreamsMemory is the same bound for a Source that republishes many others, unless
	// more is in use: with 1,000 of them it then has room for as much garbage, and the
	// process, with the databases that are open, stays below 1 GB.
	upstreamsMemory = 512 << 20
)

// TuneCopying configures the garbage collector for a run that copies or compares resources,
// except for what the user has set with Go's own variables, as do the others.
func TuneCopying() { tune(garbagePercent, memoryLimit) }

// TuneSource makes the collector run as often as by default, but more often where much is
// in use: a Source keeps up to 64 MiB of compressed documents, and would have as much
// garbage.
func TuneSource() { tune(100, sourceLimit) }

// TuneUpstreams is TuneCopying for a process with several mirrors: of its own, or of the
// Sources that it republishes.
func TuneUpstreams() { tune(garbagePercent, upstreamsLimit) }

// TuneHub is TuneCopying for a hub.
func TuneHub() { tune(hubGarbagePercent, hubLimit) }

// tune makes the collector run less often, and has the memory limit follow the number of
// bytes that are in use, and of those among them in which the collector looks for pointers.
func tune(percent int, limit func(live, scanned int64) int64) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		first := limit(0, 0)
		debug.SetMemoryLimit(first)
		followLiveMemory(first, limit)
	}
}

// followLiveMemory adjusts the memory limit after each garbage collection. present
// is the present one.
func followLiveMemory(present int64, limit func(live, scanned int64) int64) {
	type sentinel struct{ _ *byte } // the pointer gives it a place of its own in memory
	runtime.AddCleanup(new(sentinel), func(present int64) {
		samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/heap:bytes"}}
		metrics.Read(samples)
		next := limit(int64(samples[0].Value.Uint64()), int64(samples[1].Value.Uint64()))
		if next != present {
			debug.SetMemoryLimit(next)
		}
		followLiveMemory(next, limit)
	}, present)
}

// memoryLimit returns the limit for a number of bytes that are in use. A limit close to
// them would make the collector run all the time. What a collection costs depends on the
// bytes in which it looks for pointers: contents in memory, which have none, need no room
// for as much garbage.
func memoryLimit(live, scanned int64) int64 {
	return min(max(live+min(live, scanned)+spareMemory, leastMemory), mostMemory)
}

// sourceLimit is memoryLimit for a Source.
func sourceLimit(live, _ int64) int64 { return max(live+live/2+spareMemory, leastMemory) }

// upstreamsLimit is memoryLimit with many upstreams. What is in use is bounded by their
// number, not by what one of them sends: above upstreamsMemory the limit grows with it.
func upstreamsLimit(live, scanned int64) int64 {
	return max(sourceLimit(live, scanned), upstreamsMemory)
}

// hubLimit is memoryLimit for a hub. Its memory grows with its subscriptions: where
// more is in use, garbage is collected as often as by default.
func hubLimit(live, _ int64) int64 { return max(2*live+spareMemory, leastMemory) }
