//go:build race

package bitstream_test

// underRace says that tests are slow, so that some make fewer rounds.
const underRace = true
