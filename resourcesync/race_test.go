//go:build race

package resourcesync_test

const raceEnabled = true
