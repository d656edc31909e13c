package push

import "time"

const (
	// overtakenPauses is how long the content of a resource may be another than
	// a notification said until the set is looked at, in pauses
	// (FollowOptions.Pause): it has changed again, and most often the next
	// notification says so.
	overtakenPauses = 5

	// MaxOvertaken is of how many resources that is remembered.
	MaxOvertaken = 10_000
)

// Overtaken are the resources whose content had changed again when a
// notification of them was processed, each with the time.
type Overtaken map[Key]time.Time

// Processed records the result of messages: which resources they announced, and
// which of those were overtaken.
func (o Overtaken) Processed(announced []Announced, stale map[string]error, now time.Time) {
	var still map[Key]bool
	if len(stale) > 0 {
		still = make(map[Key]bool, len(stale))
		for uri := range stale {
			k := KeyOf(uri)
			still[k] = true
			if _, ok := o[k]; !ok && len(o) < MaxOvertaken {
				o[k] = now
			}
		}
	}
	for i := range announced {
		if k := announced[i].Key; !still[k] {
			delete(o, k)
		}
	}
}

// Due returns when the set has to be looked at, if nothing comes before; zero
// is never.
func (o Overtaken) Due(pause time.Duration) time.Time {
	var first time.Time
	for _, at := range o {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	if first.IsZero() {
		return first
	}
	return first.Add(overtakenPauses * pause)
}
