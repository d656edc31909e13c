package entries

import (
	"sync"
	"sync/atomic"
	"time"

	"lockstep/destination/internal/desired"
	"lockstep/resourcesync"
)

const (
	// MaxClockSkew is how far the clocks of a Source and of this machine may
	// differ without a warning.
	MaxClockSkew = time.Minute

	// MaxTrustedSkew is how far a time may be ahead and still be used: to order
	// changes, and as the time up to which a set was read.
	MaxTrustedSkew = 10 * time.Second
)

// FutureTimes are the times in our future that were read.
type FutureTimes struct {
	Limit time.Time // what is after it lies in our future; it is reported if it is later by far
	count atomic.Int64

	mu    sync.Mutex // guards what follows
	first string     // URI of the first entry, or document
	at    resourcesync.Datetime
}

// Has reports whether a time is in our future.
func (f *FutureTimes) Has(d resourcesync.Datetime) bool {
	return !d.IsZero() && !f.Limit.IsZero() && d.Time().After(f.Limit)
}

// Note records the times of an entry, or of a document.
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

// doubt turns a change with a time in our future into a change of unknown kind,
// for which the resource is asked what is there now: a Resource List of a
// corrected clock may be newer.
func doubt(w *desired.Resource) {
	w.Gone, w.Change, w.Hashes, w.Length, w.Lastmod, w.Links = false, resourcesync.UnknownChange, nil, -1, resourcesync.Datetime{}, nil
}

// Take returns how many times were noted and the first of them, and forgets them.
func (f *FutureTimes) Take() (n int64, uri string, at resourcesync.Datetime) {
	if n = f.count.Swap(0); n == 0 {
		return 0, "", at
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return n, f.first, f.at
}
