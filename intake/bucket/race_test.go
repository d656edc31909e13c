//go:build race

package bucket_test

// underRace says that tests are slow, so that some make fewer rounds.
const underRace = true
