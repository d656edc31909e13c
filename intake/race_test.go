//go:build race

package intake_test

// underRace says that tests are slow, so that some make fewer rounds.
const underRace = true
