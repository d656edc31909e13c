//go:build !race

package bucket_test

const underRace = false
