package sections

import "time"

const (
	// maxInstants is how many different instants the sections of a new list have at
	// most. Each list has the sections with the earliest of them written again, so
	// that its own at, which is no later, is a new one (RS-RL-13).
	maxInstants = 500

	// maxStep is how far these instants are apart at most.
	maxStep = time.Millisecond

	// tick is shorter than the time between two changes of a catalog.
	tick = time.Microsecond - time.Nanosecond
)

// Instants returns what the at of each of n sections is that are written for a
// list taken at mark, in order. No change happens between low and mark, or within a
// microsecond after mark: all of these instants are equally true of the sections.
// Steps of whole microseconds before mark are preferred, because readers may round.
func Instants(low, mark time.Time, n int) []time.Time {
	all := make([]time.Time, n)
	groups := min(n, maxInstants)
	last := time.Duration(max(1, groups-1))
	step := min(mark.Sub(low)/last, maxStep).Truncate(time.Microsecond)
	first := mark.Add(-step * time.Duration(groups-1))
	if step <= 0 {
		first = mark
		if low.After(mark) {
			first = low
		}
		end := mark.Add(tick)
		if first.After(end) {
			first = end
		}
		step = end.Sub(first) / last
	}
	for i := range all {
		all[i] = first.Add(step * time.Duration(i*groups/n))
	}
	return all
}
