//go:build !race

package intake_test

const underRace = false
