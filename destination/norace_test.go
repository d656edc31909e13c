//go:build !race

package destination_test

const underRace = false
