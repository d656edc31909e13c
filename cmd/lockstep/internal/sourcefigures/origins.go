package sourcefigures

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/intake"
	"lockstep/internal/fetch"
)

// Origins is what is known of the origins of sets: which of them cannot be
// read, and since when. The zero value is ready to use.
type Origins struct {
	mu      sync.Mutex // guards failing and read
	failing map[string]upstreamFailure
	read    map[string]time.Time // when each was last read, by set
}

// An upstreamFailure is an origin that cannot be read.
type upstreamFailure struct {
	since   time.Time
	refused bool               // it can be read, and is empty or lists far less than before
	error   string             // of the last attempt
	hint    string             // what to do about it
	warned  map[string]warning // the last of each cause
}

// A warning was given.
type warning struct {
	at   time.Time
	rest time.Duration // how long it is not repeated
}

// maxCauses is of how many causes of one set the last warning is remembered: those of
// several upstreams alternate.
const maxCauses = 1000

// How long a warning of the same cause is not repeated, at first and at most; the
// time doubles with each warning.
const (
	warningRestFirst = time.Minute
	warningRestMost  = time.Hour
)

// IsRepeated reports whether the event is a failure of which people were warned a
// short time before now. Call it after [Origins.Note], and warn if it returns false.
func (u *Origins) IsRepeated(set string, e *intake.Event, now time.Time) bool {
	if e.Kind != intake.EventScanned || e.Err == nil {
		return false
	}
	cause := e.Err.Error()
	if errors.Is(e.Err, intake.ErrEmpty) {
		cause = intake.ErrEmpty.Error() // how much is missing is no other cause
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	f := u.failing[set]
	was := f.warned[cause]
	if now.Sub(was.at) < was.rest {
		return true
	}
	if f.warned == nil || len(f.warned) >= maxCauses {
		f.warned = make(map[string]warning)
	}
	f.warned[cause] = warning{now, min(max(2*was.rest, warningRestFirst), warningRestMost)}
	u.failing[set] = f
	return false
}

// Note takes in the end of a scan. It returns a sentence if the origin of the set
// can be read again; "" otherwise.
func (u *Origins) Note(set string, e *intake.Event) string {
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
		was.refused, was.error, was.hint = errors.Is(e.Err, intake.ErrEmpty), e.Err.Error(), term.HintOf(e.Err)
		u.failing[set] = was
		return ""
	}
	u.read[set] = now
	delete(u.failing, set)
	if !failed {
		return ""
	}
	return fmt.Sprintf("set %s: its origin can be read again, after %s", fetch.Printable(set), term.Elapsed(now.Sub(was.since)))
}

// Forget removes what is known of the origin of a set that is no longer published.
func (u *Origins) Forget(set string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.failing, set)
	delete(u.read, set)
}

// An OriginState is what is known of the origin of a set.
type OriginState struct {
	Read        time.Time // when it was last read; zero: not since the process started
	Since       time.Time // when it could not be read for the first time; zero: it could
	Error, Hint string    // why, and what to do about it
}

// State returns what is known of the origin of a set.
func (u *Origins) State(set string) OriginState {
	u.mu.Lock()
	defer u.mu.Unlock()
	f := u.failing[set]
	return OriginState{Read: u.read[set], Since: f.since, Error: f.error, Hint: f.hint}
}

// Figures are what monitors learn of origins.
func (u *Origins) Figures(out *admin.Figures) {
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
		if i == MaxSets {
			break
		}
		f, failing := u.failing[set]
		age := 0.0
		if failing {
			age = time.Since(f.since).Seconds()
		}
		out.Gauge("lockstep_source_origin_failing", "1 while the origin of the set (directory, list, feed, repository) cannot be read.", admin.Truth(failing), "set", set)
		out.Gauge("lockstep_source_origin_failing_seconds", "For how long the origin of the set could not be read.", age, "set", set)
		if t := u.read[set]; !t.IsZero() {
			out.Gauge("lockstep_source_origin_read_timestamp_seconds", "When the origin of the set was read last.", float64(t.UnixMicro())/1e6, "set", set)
		}
	}
}

// Detail says which origins cannot be read; "" if all can. What was published
// before is served all the same, so that this is no reason not to be ready.
func (u *Origins) Detail() string { return u.DetailOf(func(string) bool { return true }) }

// DetailOf is Detail about some of the sets.
func (u *Origins) DetailOf(which func(set string) bool) string { return u.describe(which, false) }

// ProblemOf is DetailOf for the operator: with the causes, which name files and hosts, and
// with what to do about them.
func (u *Origins) ProblemOf(which func(set string) bool) string { return u.describe(which, true) }

func (u *Origins) describe(which func(set string) bool, causes bool) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	text := ""
	for _, set := range slices.Sorted(maps.Keys(u.failing)) {
		f := u.failing[set]
		if !which(set) {
			continue
		}
		head := fmt.Sprintf("set %s: its origin cannot be read since %s", fetch.Printable(set), f.since.UTC().Format(time.RFC3339))
		if f.refused {
			head = fmt.Sprintf("set %s: left as it is since %s, because its origin is suddenly empty or lists far less; --allow-empty consents", fetch.Printable(set), f.since.UTC().Format(time.RFC3339))
		}
		text += head
		if causes {
			text += ": " + fetch.Printable(f.error)
			if f.hint != "" && !f.refused {
				text += "\nhint: " + fetch.Printable(f.hint)
			}
		}
		text += "\n"
	}
	return text
}
