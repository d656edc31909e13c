//go:build race

package destination_test

// underRace says that all is slow: what takes time, or is under way at a kill, is
// more than it is otherwise.
const underRace = true
