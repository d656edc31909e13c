package versions

import (
	"sync"
	"time"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/sourcefigures"
)

// A tally counts versions, for monitors.
type tally struct {
	mu      sync.Mutex // guards the fields below
	sets    map[string]setFigures
	dropped int64
}

// A setFigures describes the versions of a set at the last check.
type setFigures struct {
	kept, bytes int64
	oldest      time.Time
}

// retained counts the result of a check of a set.
func (t *tally) retained(set string, f setFigures, dropped int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sets == nil {
		t.sets = make(map[string]setFigures)
	}
	t.sets[set] = f
	t.dropped += dropped
}

// Figures writes the metrics of prior versions.
func (u *Upkeep) Figures(out *admin.Figures) {
	if !u.Store.Used() {
		return
	}
	t := &u.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	out.Counter("lockstep_source_versions_captured_total", "Versions of resources kept.", float64(u.Keeper.Captured()))
	out.Counter("lockstep_source_versions_dropped_total", "Versions dropped, for they are not to be kept so long.", float64(t.dropped))
	out.Counter("lockstep_source_versions_damaged_total", "Times kept bytes turned out to be damaged; they are never served.", float64(u.Keeper.Damaged()))
	for _, set := range u.Sets[:min(len(u.Sets), sourcefigures.MaxSets)] {
		f, known := t.sets[set.Name]
		if !known {
			continue
		}
		out.Gauge("lockstep_source_versions", "Versions there are, when that was looked at last.", float64(f.kept), "set", set.Name)
		out.Gauge("lockstep_source_versions_bytes", "Their length, each by itself; what they take on disk is less.", float64(f.bytes), "set", set.Name)
		if !f.oldest.IsZero() {
			out.Gauge("lockstep_source_versions_oldest_timestamp_seconds", "Datetime of the oldest of them.", float64(f.oldest.UnixMicro())/1e6, "set", set.Name)
		}
	}
}
