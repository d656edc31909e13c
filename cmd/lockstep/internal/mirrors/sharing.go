package mirrors

import (
	"time"

	"lockstep/aggregator"
	"lockstep/cmd/lockstep/internal/network"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/internal/garbage"
	"lockstep/storage/sqlite"
)

const (
	// mostJobs is the most to which the number of concurrent requests to one host grows for
	// one of several mirrors.
	mostJobs = 64

	// idleFor is after which time without use the connections to a Source, and to the
	// database, of one of several mirrors that are followed are closed: each has buffers.
	idleFor = 2 * time.Second

	// cacheOfMirror is the size of the caches of the database of one of several mirrors, in
	// KiB. They are no part of Go's heap: no memory limit applies to them.
	cacheOfMirror = 2 << 10
)

// sharing is what the mirrors of a process have in common.
type sharing struct {
	fleet  *aggregator.Fleet
	net    network.Options // with the bandwidth of the process
	files  int             // that each mirror may have open; 0: any number
	limits map[pace]*fetch.Limits
	idles  time.Duration // after which what is not used is closed; 0: a default
}

// A pace is what limits the requests to a host.
type pace struct {
	jobs int     // 0: the number adapts
	rate float64 // 0: there is no limit
}

// share returns what n mirrors share, which are worked on parallel at a time. net has the
// flags of the process.
func share(n, parallel int, net network.Options) *sharing {
	if n > 1 {
		garbage.TuneUpstreams()
	} else {
		garbage.TuneCopying()
	}
	net.ShareBandwidth()
	s := &sharing{fleet: aggregator.NewFleet(aggregator.FleetOptions{Jobs: parallel}), net: net, limits: map[pace]*fetch.Limits{}}
	if files := fetch.OpenFiles(); files > 0 && n > 1 {
		// As many again as are worked on may take long.
		s.files = max((files-fetch.OwnFiles)/min(2*parallel, n), fetch.OwnFiles)
	}
	return s
}

// join gives mirrors what they share: one host gets, from all mirrors of a Source that is
// there, no more than the strictest of them allows, and from all that say nothing as much as
// from one.
func (s *sharing) join(entries []*entry) {
	paces := map[string]pace{} // by host of the Source
	for _, e := range entries {
		net, host := &e.sync().Network, hostOf(e)
		paces[host] = stricter(paces[host], pace{net.Jobs, net.Rate})
	}
	for _, e := range entries {
		net, p := &e.sync().Network, paces[hostOf(e)]
		if s.limits[p] == nil {
			s.limits[p] = &fetch.Limits{}
		}
		net.Jobs, net.Rate, net.Limits, net.Total, net.MostJobs = p.jobs, p.rate, s.limits[p], s.net.Total, mostJobs
		e.sync().OpenFiles = s.files
		e.sync().Database = sqlite.Options{Cache: cacheOfMirror, Idle: s.idles}
		net.Idle = s.idles
	}
}

// hostOf returns the host of the Source of a mirror; "" if it is a file.
func hostOf(e *entry) string {
	u := discover.Home(e.sync().Source)
	if u == nil {
		return ""
	}
	at := *u
	if at.User = nil; at.Scheme == "" {
		at.Scheme = "https" // it is given without
	}
	return fetch.HostOf(at.String())
}

// stricter returns the pace that keeps both limits.
func stricter(a, b pace) pace {
	least := func(a, b float64) float64 {
		if a == 0 || b != 0 && b < a {
			return b
		}
		return a
	}
	return pace{jobs: int(least(float64(a.jobs), float64(b.jobs))), rate: least(a.rate, b.rate)}
}
