package entries

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/wording"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

const (
	// MaxClockSkew is the difference between the clocks of a Source and this
	// machine that is tolerated without a warning.
	MaxClockSkew = time.Minute

	// MaxTrustedSkew is how far a time may be in the future and still be used to
	// order changes, and as the time up to which a set was read.
	MaxTrustedSkew = 10 * time.Second
)

// FutureTimes records the times read that are in the future of this machine's
// clock. It is safe for concurrent use.
type FutureTimes struct {
	Limit time.Time // later times are in the future; those beyond the tolerated skew are reported
	count atomic.Int64

	mu    sync.Mutex // guards what follows
	first string     // URI of the first entry, or document, with such a time
	at    resourcesync.Datetime
}

// Has reports whether d is in the future.
func (f *FutureTimes) Has(d resourcesync.Datetime) bool {
	return !d.IsZero() && !f.Limit.IsZero() && d.Time().After(f.Limit)
}

// Note records the times of an entry or a document.
func (f *FutureTimes) Note(uri string, ds ...resourcesync.Datetime) {
	for _, d := range ds {
		if !f.Has(d) || !d.Time().After(f.Limit.Add(MaxClockSkew-MaxTrustedSkew)) {
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

// doubt turns a change with a time in the future into a change of unknown kind, for
// which the current state of the resource is requested: a Resource List written
// after the Source corrected its clock may be newer.
func doubt(w *desired.Resource) {
	w.Gone, w.Change, w.Hashes, w.Length, w.Lastmod = false, resourcesync.UnknownChange, nil, -1, resourcesync.Datetime{}
	w.Links, w.Foreign, w.Undescribed = nil, resourcesync.Foreign{}, true
}

// WasAhead reports whether the set was read up to a time in the future of this
// machine's clock.
//
// A Source whose clock is fast dates its changes in our future. Once the clock is
// corrected, later changes have earlier times than those that were applied: by the
// times alone they would be skipped. So times in our future are reported when they
// are read and do not order changes, and the next run that finds something new
// compares all of a set that was read up to such a time, unless it continues where
// the last one ended, entry by entry.
func WasAhead(st *saved.Set, now time.Time) bool {
	limit := now.Add(MaxClockSkew)
	return st.Ahead || st.Watermark.After(limit) || st.SeenTime.After(limit) || st.ListAt.After(limit)
}

// Report warns of the times of a set that were recorded, and resets the record.
func (f *FutureTimes) Report(st *saved.Set, warn func(uri, text string)) {
	n, first, at := f.take()
	if n == 0 {
		return
	}
	warn(st.URI, fmt.Sprintf("set %s: the Source has times in our future, %s in all, the first %s of %s: its clock or that of this machine is wrong",
		st.Name, wording.Grouped(n), wording.Time(at.Time()), fetch.Printable(first)))
}

// take returns the number of times recorded and the first of them, and resets the
// record.
func (f *FutureTimes) take() (n int64, uri string, at resourcesync.Datetime) {
	if n = f.count.Swap(0); n == 0 {
		return 0, "", at
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return n, f.first, f.at
}
