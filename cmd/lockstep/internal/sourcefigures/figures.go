// Package sourcefigures counts what a Source does, and notes which of its origins cannot
// be read, for monitors.
package sourcefigures

import (
	"slices"
	"sync"
	"time"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/recent"
	"lockstep/source"
)

// A Tally counts what a site does, for monitors.
type Tally struct {
	mu           sync.Mutex // guards what follows
	publications int64
	failed       int64 // publications
	last         time.Time
	took         time.Duration // the last one
	problem      error         // why the last one failed
	problemOfAll bool          // that was a publication of everything
	sets         map[string]*setTally
	changes      recent.Total // published, of all sets that there were
}

// A setTally counts the changes, notifications and file checks of a set.
type setTally struct {
	resources                int64
	changes                  int64 // published
	accepted, tried, refused int64 // notifications
	gaps                     int64 // of them, those that could not list all changes
	damaged                  int64 // files found damaged
	rehashed                 int64 // files read again
}

// set returns the tally of a set. t.mu is held.
func (t *Tally) set(name string) *setTally {
	if t.sets == nil {
		t.sets = make(map[string]*setTally)
	}
	s := t.sets[name]
	if s == nil {
		s = &setTally{}
		t.sets[name] = s
	}
	return s
}

// Published counts a publication, which was to be of everything, or of what is urgent.
func (t *Tally) Published(r *source.Report, all bool, began time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.problem, t.problemOfAll = err, all
		t.failed++
		t.changes.Failed++
		return
	}
	if all || !t.problemOfAll { // a failure of everything may be that of something that is not urgent
		t.problem = nil
	}
	t.publications++
	t.last = time.Now()
	t.took = t.last.Sub(began)
	changes := t.changes.Count
	for i := range r.Sets {
		s := t.set(r.Sets[i].Set)
		s.resources = r.Sets[i].Resources
		s.changes += r.Sets[i].Changes
		t.changes.Count += r.Sets[i].Changes
	}
	if t.changes.Count > changes {
		t.changes.Latency.Add(t.took, 1)
	}
}

// Changes returns how many changes were published, how long publications took, and how many
// failed.
func (t *Tally) Changes() recent.Total {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changes
}

// Problem says why the last publication failed; "" if it did not, or one of as much has
// succeeded since.
func (t *Tally) Problem() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.problem == nil {
		return ""
	}
	return "publish: " + t.problem.Error() + "\n"
}

// Rehashed counts files that were read again to find damage.
func (t *Tally) Rehashed(set string, files int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set(set).rehashed += int64(files)
}

// Damaged counts a file that was found damaged.
func (t *Tally) Damaged(set string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set(set).damaged++
}

// Notified counts an attempt to notify a hub.
func (t *Tally) Notified(n *source.Notification) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.set(n.Set)
	switch {
	case n.Refused:
		s.refused++
	case n.Err != nil:
		s.tried++
		return // it comes again
	default:
		s.accepted++
	}
	if n.Gap {
		s.gaps++
	}
}

// Forget removes the figures of a set that is no longer published.
func (t *Tally) Forget(set string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.sets, set)
}

// Last returns when documents were last published; zero: not since the process started.
func (t *Tally) Last() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// Resources returns how many resources a set has; nil if it was not published yet.
func (t *Tally) Resources(set string) *int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sets[set]
	if s == nil {
		return nil
	}
	n := s.resources
	return &n
}

// Figures are what monitors learn of the Source.
func (t *Tally) Figures(out *admin.Figures) {
	t.mu.Lock()
	defer t.mu.Unlock()
	out.Counter("lockstep_source_publications_total", "Times documents were brought in step with the catalog.", float64(t.publications))
	out.Counter("lockstep_source_publications_failed_total", "Times that failed.", float64(t.failed))
	if !t.last.IsZero() {
		out.Gauge("lockstep_source_published_timestamp_seconds", "When documents were published last.", float64(t.last.UnixMicro())/1e6)
		out.Gauge("lockstep_source_publication_seconds", "How long that took.", t.took.Seconds())
	}
	names := make([]string, 0, len(t.sets))
	for name := range t.sets {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names[:min(len(names), MaxSets)] {
		t.sets[name].figures(out, name)
	}
}

// MaxSets is how many sets have figures of their own: a label has few
// values.
const MaxSets = 1000

func (s *setTally) figures(out *admin.Figures, name string) {
	out.Gauge("lockstep_source_resources", "Resources in the set.", float64(s.resources), "set", name)
	out.Counter("lockstep_source_changes_published_total", "Changes published.", float64(s.changes), "set", name)
	out.Counter("lockstep_source_rehashed_files_total", "Files read again, though size and times had not changed, to find damage.", float64(s.rehashed), "set", name)
	out.Counter("lockstep_source_damaged_files_total", "Files whose bytes changed while size and times did not, or that could not be read again.", float64(s.damaged), "set", name)
	const notifications = "Change notifications, by what hubs made of them: failed ones come again."
	for _, r := range []struct {
		result string
		n      int64
	}{{"accepted", s.accepted}, {"failed", s.tried}, {"refused", s.refused}} {
		out.Counter("lockstep_source_notifications_total", notifications, float64(r.n), "set", name, "result", r.result)
	}
	out.Counter("lockstep_source_notification_gaps_total", "Notifications before which some could not be sent.", float64(s.gaps), "set", name)
}
