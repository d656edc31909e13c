package destination

import (
	"context"
	"fmt"

	"lockstep/destination/internal/wording"
)

// compareAhead compares all of a set that was read up to a time in our future.
func (r *setRun) compareAhead(ctx context.Context) error {
	st := r.set
	r.warn(st.Changes, fmt.Sprintf("set %s: it was read up to %s, when that lay in our future: comparing all of it", st.Name, wording.Time(st.Watermark)))
	return r.baseline(ctx, false)
}
