package hubserver

import (
	"maps"
	"slices"
	"sync"
	"time"

	"lockstep/cmd/lockstep/internal/dashboard"
	"lockstep/cmd/lockstep/internal/recent"
	"lockstep/hub/status"
)

// statsEvery is how long figures are used: they are made of all subscriptions.
const statsEvery = time.Second / 2

// A memo has figures of a short time ago.
type memo struct {
	mu    sync.Mutex // guards what follows; held while they are made, for that is its purpose
	at    time.Time
	stats status.Stats
}

// recentStats returns the figures of the hub, at most half a second old.
func (f *Front) recentStats() status.Stats {
	f.memo.mu.Lock()
	defer f.memo.mu.Unlock()
	if now := time.Now(); now.Sub(f.memo.at) >= statsEvery {
		f.memo.at, f.memo.stats = now, f.Stats()
	}
	return f.memo.stats
}

// Seen returns what a dashboard shows of the hub.
func (f *Front) Seen() *dashboard.Hub {
	return &dashboard.Hub{URL: f.URL, Ready: f.Ready(), Stats: f.recentStats, Subscriptions: f.SubscriptionsBy}
}

// Activities are what the hub does.
func (f *Front) Activities() []dashboard.Activity {
	return []dashboard.Activity{
		{Counter: recent.Counter{Name: "deliveries", Total: func() recent.Total { return deliveries(f.recentStats()) }}, Title: "Deliveries", Unit: "messages delivered", Latency: "time of a delivery"},
		{Counter: recent.Counter{Name: "messages", Total: func() recent.Total {
			s := f.recentStats()
			return recent.Total{Count: s.Accepted, Bytes: s.AcceptedBytes}
		}}, Title: "Messages", Unit: "messages accepted"},
	}
}

// deliveries returns how many messages were delivered. Durations are known by the classes of
// the hub.
func deliveries(s status.Stats) recent.Total {
	t := recent.Total{Count: s.Delivered, Failed: s.Failed, Bytes: s.DeliveredBytes}
	below, count := time.Duration(0), int64(0)
	for _, bound := range slices.Sorted(maps.Keys(s.Latency.UpTo)) {
		t.Latency.Add((below+bound)/2, s.Latency.UpTo[bound]-count)
		below, count = bound, s.Latency.UpTo[bound]
	}
	t.Latency.Add(2*below, s.Latency.Count-count)
	return t
}
