package push

import "time"

const (
	// overtakenPauses is how long, in multiples of FollowOptions.Pause, the content
	// of a resource may differ from what a notification stated before the set is
	// pulled: the resource has changed again, and usually the next notification
	// says so.
	overtakenPauses = 5

	// MaxOvertaken limits the resources for which that is remembered.
	MaxOvertaken = 10_000
)

// Overtaken contains the resources whose content had changed again when a
// notification about them was processed, each with the time of that.
type Overtaken map[Key]time.Time

// Processed records the result of messages: announced lists their events, and stale
// the resources among these that were overtaken.
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

// Due returns when the set has to be pulled unless a notification arrives before;
// zero: never.
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
