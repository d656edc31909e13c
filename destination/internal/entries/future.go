package entries

import (
	"sync"
	"sync/atomic"
	"time"

	"lockstep/destination/internal/desired"
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
	w.Gone, w.Change, w.Hashes, w.Length, w.Lastmod, w.Links = false, resourcesync.UnknownChange, nil, -1, resourcesync.Datetime{}, nil
}

// Take returns the number of times recorded and the first of them, and resets the
// record.
func (f *FutureTimes) Take() (n int64, uri string, at resourcesync.Datetime) {
	if n = f.count.Swap(0); n == 0 {
		return 0, "", at
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return n, f.first, f.at
}
