package destination

import (
	"context"
	"fmt"
	"time"

	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/wording"
	"lockstep/internal/fetch"
)

// A Source whose clock is fast dates its changes in our future. When the clock
// is corrected, later changes have earlier times than what is here: by the
// times alone they would be skipped. So times in our future are reported when
// they are read and are not used to order changes, and a set that was read up
// to such a time is compared as a whole by the next run that finds something
// new, unless that run continues where the last one ended, entry by entry.

// wasAhead reports whether the set was read up to a time in the future, by the
// clock of this machine.
func (st *setState) wasAhead(now time.Time) bool {
	limit := now.Add(entries.MaxClockSkew)
	return st.Ahead || st.Watermark.After(limit) || st.SeenTime.After(limit) || st.ListAt.After(limit)
}

// reportFuture warns of times in our future that were read.
func (r *setRun) reportFuture() {
	n, first, at := r.reader.Future.Take()
	if n == 0 {
		return
	}
	r.warn(r.set.URI, fmt.Sprintf("set %s: the Source has times in our future, %s in all, the first %s of %s: its clock or that of this machine is wrong",
		r.set.Name, wording.Grouped(n), wording.Time(at.Time()), fetch.Printable(first)))
}

// compareAhead compares all of a set that was read up to a time in our future.
func (r *setRun) compareAhead(ctx context.Context) error {
	st := r.set
	r.warn(st.Changes, fmt.Sprintf("set %s: it was read up to %s, when that lay in our future: comparing all of it", st.Name, wording.Time(st.Watermark)))
	return r.baseline(ctx, false)
}
