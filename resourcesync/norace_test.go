//go:build !race

package resourcesync_test

// raceEnabled reports whether the race detector is at work: long tests are
// shortened then.
const raceEnabled = false
