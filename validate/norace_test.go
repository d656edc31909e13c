//go:build !race

package validate_test

const underRace = false
