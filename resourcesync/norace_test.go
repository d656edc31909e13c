//go:build !race

package resourcesync_test

// raceEnabled reports whether the race detector is enabled: long tests are
// shortened then.
const raceEnabled = false
