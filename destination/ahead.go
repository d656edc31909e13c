package destination

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/wording"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// A Source whose clock is fast dates its changes in our future. When the clock
// is corrected, later changes have earlier times than what is here: by the
// times alone they would be skipped. So times in our future are reported when
// they are read and are not used to order changes, and a set that was read up
// to such a time is compared as a whole by the next run that finds something
// new, unless that run continues where the last one ended, entry by entry.

const (
	// maxClockSkew is how far the clocks of a Source and of this machine may
	// differ without a warning.
	maxClockSkew = time.Minute

	// maxTrustedSkew is how far a time may be ahead and still be used: to order
	// changes, and as the time up to which a set was read.
	maxTrustedSkew = 10 * time.Second
)

// wasAhead reports whether the set was read up to a time in the future, by the
// clock of this machine.
func (st *setState) wasAhead(now time.Time) bool {
	limit := now.Add(maxClockSkew)
	return st.Ahead || st.Watermark.After(limit) || st.SeenTime.After(limit) || st.ListAt.After(limit)
}

// futureTimes are the times in our future that were read.
type futureTimes struct {
	limit time.Time // what is after it lies in our future; it is reported if it is later by far
	count atomic.Int64

	mu    sync.Mutex // guards what follows
	first string     // URI of the first entry, or document
	at    resourcesync.Datetime
}

// has reports whether a time is in our future.
func (f *futureTimes) has(d resourcesync.Datetime) bool {
	return !d.IsZero() && !f.limit.IsZero() && d.Time().After(f.limit)
}

// note records the times of an entry, or of a document.
func (f *futureTimes) note(uri string, ds ...resourcesync.Datetime) {
	for _, d := range ds {
		if !f.has(d) || !d.Time().After(f.limit.Add(maxClockSkew-maxTrustedSkew)) {
			continue
		}
		if f.count.Add(1) == 1 {
			f.mu.Lock()
			f.first, f.at = uri, d
			f.mu.Unlock()
		}
		return
	}
}

// doubt turns a change with a time in our future into a change of unknown kind,
// for which the resource is asked what is there now: a Resource List of a
// corrected clock may be newer.
func doubt(w *desired.Resource) {
	w.Gone, w.Change, w.Hashes, w.Length, w.Lastmod, w.Links = false, resourcesync.UnknownChange, nil, -1, resourcesync.Datetime{}, nil
}

// reportFuture warns of times in our future that were read.
func (r *setRun) reportFuture() {
	f := &r.reader.future
	n := f.count.Swap(0)
	if n == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	r.warn(r.set.URI, fmt.Sprintf("set %s: the Source has times in our future, %s in all, the first %s of %s: its clock or that of this machine is wrong",
		r.set.Name, wording.Grouped(n), wording.Time(f.at.Time()), fetch.Printable(f.first)))
}

// compareAhead compares all of a set that was read up to a time in our future.
func (r *setRun) compareAhead(ctx context.Context) error {
	st := r.set
	r.warn(st.Changes, fmt.Sprintf("set %s: it was read up to %s, when that lay in our future: comparing all of it", st.Name, wording.Time(st.Watermark)))
	return r.baseline(ctx, false)
}
