package destination

import (
	"time"

	"lockstep/destination/internal/push"
	"lockstep/destination/internal/saved"
)

// A setState is what a run knows of one set.
type setState struct {
	saved.Set
	push *push.State // what notifications brought; nil: not loaded
}

// syncedUntil is the instant up to which all changes are applied, according to
// the Source's documents or notifications.
func (st *setState) syncedUntil() time.Time {
	if st.push == nil || st.Watermark.IsZero() {
		return st.Watermark
	}
	return saved.Latest(st.Watermark, st.push.Until)
}
