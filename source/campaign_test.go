package source_test

import "flag"

var campaign = flag.Bool("source.full", false, "have the tests that try a fault at each step, and random histories, run at full length, which takes minutes")

// apart returns how many steps apart faults are that a test tries: stride with
// -source.full, more without, so that `go test` is quick, and most under the
// race detector, where each step is many times slower.
func apart(stride int) int {
	switch {
	case underRace:
		return stride * 23
	case *campaign:
		return stride
	}
	return stride * 5
}

// rounds returns full with -source.full, and a share of it, at least one,
// without: an eighth under the race detector, otherwise a third.
func rounds(full int) int {
	switch {
	case underRace:
		return max(1, full/8)
	case *campaign:
		return full
	}
	return max(1, full/3)
}
