package site

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"lockstep/catalog"
	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/sourcefigures"
	"lockstep/cmd/lockstep/internal/sourcereport"
)

// How often it is looked which versions are to go: it takes a reading of all, so
// that it rests the longer, the longer that took.
const (
	retainLeast = time.Minute
	retainShare = 50 // of the time, one part is spent on it
)

// A versionsTally is what monitors learn of versions.
type versionsTally struct {
	mu      sync.Mutex // guards what follows
	sets    map[string]versionsFigures
	dropped int64
}

// A versionsFigures describes the versions of a set, when they were looked at last.
type versionsFigures struct {
	kept, bytes int64
	oldest      time.Time
}

// upkeepVersions drops in the background, until ctx ends, versions that are not to
// be kept any more, and removes their bytes.
func (s *Site) upkeepVersions(ctx context.Context, n *sourcereport.Reporter) error {
	if s.versions.blobs == nil {
		return nil
	}
	sweep := true // once, for what an earlier process left
	for {
		began := time.Now()
		dropped, err := s.tidyVersions(ctx)
		if sweep = sweep || dropped > 0; sweep && err == nil {
			if _, err = s.keeper.SweepVersions(ctx); err == nil {
				sweep = false
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			n.Warn(err)
		}
		if !pause(ctx, max(retainLeast, retainShare*time.Since(began))) {
			return nil
		}
		s.adoptVersions(ctx, n) // what could not be kept before
	}
}

// tidyVersions drops the versions that are not to be kept any more, and returns
// how many.
func (s *Site) tidyVersions(ctx context.Context) (dropped int64, err error) {
	for list := range s.versions.marks {
		if slices.ContainsFunc(s.sets, func(set *siteSet) bool { return set.list == list }) {
			continue
		}
		n, err := s.keeper.DropVersions(ctx, list) // of a set that no longer exists, whose documents no client finds
		if err == nil {
			err = s.versions.mark(list, nil)
		}
		if err != nil {
			return dropped, err
		}
		dropped += n
	}
	for i, set := range s.sets {
		if set.versions == nil {
			continue
		}
		n, err := s.retainVersions(ctx, set, &s.opts.Sets[i])
		if dropped += n; err != nil {
			return dropped, fmt.Errorf("set %s: %w", set.name, err)
		}
	}
	return dropped, nil
}

// retainVersions drops those of one set. What is published now stays, and so does
// what was so a moment ago, for a list of that may be published meanwhile
// (ME-RET-01).
func (s *Site) retainVersions(ctx context.Context, set *siteSet, c *config.Set) (dropped int64, err error) {
	st, err := s.db.Catalog().Status(ctx, set.list)
	if err != nil {
		return 0, err
	}
	floor, snapshots, err := s.src.Listed(ctx, set.name)
	if err != nil {
		return 0, err
	}
	if m := s.versions.marks[set.list]; m.Ended != nil && floor >= m.EndedSeq &&
		!slices.ContainsFunc(snapshots, func(q catalog.Mark) bool { return !q.At.After(*m.Ended) }) {
		return s.endVersions(ctx, set) // all that is published was made since
	}
	p := c.Versions.Policy()
	p.FloorSeq = int64(floor)
	for _, q := range append(snapshots, catalog.Mark{Seq: st.Last}) {
		p.SnapshotSeqs = append(p.SnapshotSeqs, int64(q.Seq))
	}
	r, err := s.keeper.Retain(ctx, set.list, p)
	if err != nil {
		return 0, err
	}
	if r.Dropped > 0 {
		s.log.InfoContext(ctx, "dropped prior versions", slog.String("set", set.name), slog.Int64("entries", r.Dropped))
	}
	s.versions.tally.retained(set.name, versionsFigures{r.Kept, r.Bytes, r.Oldest}, r.Dropped)
	return r.Dropped, nil
}

// endVersions drops all versions of a set that keeps none any more, once nothing
// that is published names any.
func (s *Site) endVersions(ctx context.Context, set *siteSet) (dropped int64, err error) {
	if dropped, err = s.keeper.DropVersions(ctx, set.list); err != nil {
		return dropped, err
	}
	s.versions.tally.retained(set.name, versionsFigures{}, dropped)
	return dropped, s.versions.mark(set.list, nil)
}

func (t *versionsTally) retained(set string, f versionsFigures, dropped int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sets == nil {
		t.sets = make(map[string]versionsFigures)
	}
	t.sets[set] = f
	t.dropped += dropped
}

// versionFigures are what monitors learn of prior versions.
func (s *Site) versionFigures(out *admin.Figures) {
	if s.versions.blobs == nil {
		return
	}
	t := &s.versions.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	out.Counter("lockstep_source_versions_captured_total", "Versions of resources kept.", float64(s.keeper.Captured()))
	out.Counter("lockstep_source_versions_dropped_total", "Versions dropped, for they are not to be kept so long.", float64(t.dropped))
	out.Counter("lockstep_source_versions_damaged_total", "Times kept bytes turned out to be damaged; they are never served.", float64(s.keeper.Damaged()))
	for i, set := range s.sets {
		f, known := t.sets[set.name]
		if !known || i >= sourcefigures.MaxSets {
			continue
		}
		out.Gauge("lockstep_source_versions", "Versions there are, when that was looked at last.", float64(f.kept), "set", set.name)
		out.Gauge("lockstep_source_versions_bytes", "Their length, each by itself; what they take on disk is less.", float64(f.bytes), "set", set.name)
		if !f.oldest.IsZero() {
			out.Gauge("lockstep_source_versions_oldest_timestamp_seconds", "Datetime of the oldest of them.", float64(f.oldest.UnixMicro())/1e6, "set", set.name)
		}
	}
}
