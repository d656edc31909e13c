//go:build !race

package source_test

const underRace = false
