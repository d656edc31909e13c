package following

import (
	"slices"
	"sync"

	"lockstep/cmd/lockstep/internal/dashboard"
	"lockstep/cmd/lockstep/internal/recent"
	"lockstep/destination"
)

// Work counts what is applied to a mirror.
type Work struct {
	bytes func() int64 // that came over the network

	mu    sync.Mutex // guards total
	total recent.Total
}

// count counts a change that was applied, or could not be.
func (w *Work) count(kind destination.EventKind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch kind {
	case destination.EventApplied:
		w.total.Count++
	case destination.EventFailed, destination.EventRefused:
		w.total.Failed++
	}
}

// countDelay counts how long changes took from the Source to the mirror: it is known of the
// newest change of each notification.
func (w *Work) countDelay(r *destination.Report, status *destination.FollowStatus) {
	if r.Via != destination.ViaNotification {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range r.BySet {
		j := slices.IndexFunc(status.Sets, func(s destination.SetStatus) bool { return s.URI == r.BySet[i].URI })
		if j >= 0 && status.Sets[j].Lag > 0 {
			w.total.Latency.Add(status.Sets[j].Lag, 1)
		}
	}
}

// Total returns what was done so far.
func (w *Work) Total() recent.Total {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.total
	t.Bytes = w.bytes()
	return t
}

// Activities are what a process does that follows mirrors; work returns how much it did for
// all of them.
func Activities(work func() recent.Total) []dashboard.Activity {
	return []dashboard.Activity{{
		Counter: recent.Counter{Name: "changes", Total: work}, Title: "Changes", Unit: "changes applied", Latency: "delay of notified changes",
	}}
}
