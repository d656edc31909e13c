//go:build !race

package patch_test

const underRace = false
