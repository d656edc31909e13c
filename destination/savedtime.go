package destination

import "time"

// The clock of this machine may have been ahead when a time was saved, and have been
// set back since. A wait until such a time could last for years.

// savedUntil returns the saved end of a wait that lasts at most most; zero if it is
// further off.
func savedUntil(t, now time.Time, most time.Duration) time.Time {
	if t.After(now.Add(most)) {
		return time.Time{}
	}
	return t
}

// savedPast returns the saved time of an event; now if that is earlier.
func savedPast(t, now time.Time) time.Time {
	if t.After(now) {
		return now
	}
	return t
}
