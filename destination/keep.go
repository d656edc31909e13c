package destination

import (
	"errors"
	"time"

	"lockstep/destination/internal/history"
)

// A Keep selects the versions of replaced and removed resources that a mirror keeps. At most one field is set. If none is, the mirror keeps its recorded
// setting; a mirror without one keeps no versions.
type Keep struct {
	All   bool          `json:"all,omitempty"`
	Count int           `json:"count,omitempty"` // the newest versions of each resource, as many as this
	Age   time.Duration `json:"age,omitempty"`   // every version that was current within this time
	None  bool          `json:"none,omitempty"`  // no version, not even those kept so far
}

func (k Keep) check() error {
	set := 0
	for _, is := range []bool{k.All, k.Count != 0, k.Age != 0, k.None} {
		if is {
			set++
		}
	}
	if set > 1 || k.Count < 0 || k.Age < 0 {
		return errors.New("which versions to keep: want all, a number of them above 0, or an age")
	}
	return nil
}

// keptContent opens the contents that the mirror holds or has kept.
func keptContent(d *Destination) *history.Content {
	return &history.Content{Journal: d.journal, Files: d.store, Versions: d.vault}
}
