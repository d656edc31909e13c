package destination

import "time"

const (
	// overtakenPauses is how long the content of a resource may be another than
	// a notification said until the set is looked at, in pauses
	// (FollowOptions.Pause): it has changed again, and most often the next
	// notification says so.
	overtakenPauses = 5

	// maxOvertaken is of how many resources that is remembered.
	maxOvertaken = 10_000
)

// overtaken are the resources whose content had changed again when a
// notification of them was processed, each with the time.
type overtaken map[resourceKey]time.Time

// passed records the result of messages: which resources they announced, and
// which of those were overtaken.
func (o overtaken) passed(news []pushNews, stale map[string]error, now time.Time) {
	var still map[resourceKey]bool
	if len(stale) > 0 {
		still = make(map[resourceKey]bool, len(stale))
		for uri := range stale {
			k := keyOfResource(uri)
			still[k] = true
			if _, ok := o[k]; !ok && len(o) < maxOvertaken {
				o[k] = now
			}
		}
	}
	for i := range news {
		if k := news[i].key; !still[k] {
			delete(o, k)
		}
	}
}

// due returns when the set has to be looked at, if nothing comes before; zero
// is never.
func (o overtaken) due(pause time.Duration) time.Time {
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
