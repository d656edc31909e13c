package main

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"lockstep/intake"
	"lockstep/internal/fetch"
)

// upstreams is what is known of the origins of sets: which of them cannot be
// read, and since when. The zero value is ready to use.
type upstreams struct {
	mu      sync.Mutex // guards failing and read
	failing map[string]upstreamFailure
	read    map[string]time.Time // when each was last read, by set
}

// An upstreamFailure is an origin that cannot be read.
type upstreamFailure struct {
	since time.Time
}

// note takes in the end of a scan. It returns a sentence if the origin of the set
// can be read again; "" otherwise.
func (u *upstreams) note(set string, e *intake.Event) string {
	if e.Kind != intake.EventScanned {
		return ""
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.failing == nil {
		u.failing, u.read = make(map[string]upstreamFailure), make(map[string]time.Time)
	}
	now := time.Now()
	was, failed := u.failing[set]
	if e.Err != nil {
		if !failed {
			was.since = now
		}
		u.failing[set] = was
		return ""
	}
	u.read[set] = now
	delete(u.failing, set)
	if !failed {
		return ""
	}
	return fmt.Sprintf("set %s: its origin can be read again, after %s", fetch.Printable(set), elapsed(now.Sub(was.since)))
}

// figures are what monitors learn of origins.
func (u *upstreams) figures(out *figures) {
	u.mu.Lock()
	defer u.mu.Unlock()
	sets := make(map[string]bool)
	for set := range u.failing {
		sets[set] = true
	}
	for set := range u.read {
		sets[set] = true
	}
	for i, set := range slices.Sorted(maps.Keys(sets)) {
		if i == maxSetFigures {
			break
		}
		f, failing := u.failing[set]
		age := 0.0
		if failing {
			age = time.Since(f.since).Seconds()
		}
		out.gauge("lockstep_source_origin_failing", "1 while the origin of the set (directory, list, feed, repository) cannot be read.", truth(failing), "set", set)
		out.gauge("lockstep_source_origin_failing_seconds", "For how long the origin of the set could not be read.", age, "set", set)
		if t := u.read[set]; !t.IsZero() {
			out.gauge("lockstep_source_origin_read_timestamp_seconds", "When the origin of the set was read last.", float64(t.UnixMicro())/1e6, "set", set)
		}
	}
}

// detail says which origins cannot be read; "" if all can. What was published
// before is served all the same, so that this is no reason not to be ready.
func (u *upstreams) detail() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	text := ""
	for _, set := range slices.Sorted(maps.Keys(u.failing)) {
		f := u.failing[set]
		text += fmt.Sprintf("set %s: its origin cannot be read since %s\n", fetch.Printable(set), f.since.UTC().Format(time.RFC3339))
	}
	return text
}
