//go:build race

package destination_test

// underRace reports that everything is slow: durations, and the bytes in transfer at
// a kill, are larger than otherwise.
const underRace = true
