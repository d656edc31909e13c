//go:build race

package validate_test

// underRace reports that tests are slow, so that some make fewer rounds.
const underRace = true
