package following

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"lockstep/cmd/lockstep/internal/upstreams"
	"lockstep/destination"
)

// ErrFirstSync says why a follow is not ready.
var ErrFirstSync = errors.New("the first sync is not done yet")

// noteReady remembers whether all sets have been in step.
func noteReady(f *Run, s *destination.FollowStatus) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ready = f.ready || s.Synced
}

// IsReady reports whether all sets have been in step once, apart from single resources that
// failed.
func (f *Run) IsReady() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ready
}

// readiness returns what readiness says to the public: nil, or [ErrFirstSync], which names no
// hosts.
func readiness(f *Run) error {
	if !f.IsReady() {
		return ErrFirstSync
	}
	return nil
}

// WhyNotReady returns why not all sets have been in step once; nil if they have.
func (f *Run) WhyNotReady() error {
	if f.IsReady() {
		return nil
	}
	if err := failure(f); err != nil {
		return err
	}
	status := f.status()
	if open := notInStep(&status); haveAllEnded(&status) && len(open) > 0 {
		return errors.New(strings.Join(open, "; "))
	}
	return ErrFirstSync
}

// IsTried reports whether the result of the first sync was printed, or the first sync
// cannot begin: it is tried again.
func (f *Run) IsTried() bool {
	f.mu.Lock()
	announced := f.announced
	f.mu.Unlock()
	return announced || failure(f) != nil
}

// failure returns why the first sync cannot begin so far; nil if it is under way, or done.
func failure(f *Run) error {
	status := f.status()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.announced || f.failing == 0 || !f.closed && (f.tried || len(status.Sets) > 0) {
		return nil
	}
	return f.last
}

// haveAllEnded reports whether each set was pulled once, with or without success.
func haveAllEnded(s *destination.FollowStatus) bool {
	return len(s.Sets) > 0 && !slices.ContainsFunc(s.Sets, func(set destination.SetStatus) bool { return set.Pulled.IsZero() })
}

// notInStep returns a line for each set that was not in step after its last pull, and for
// the sets that the last look at the Source could not find.
func notInStep(s *destination.FollowStatus) (lines []string) {
	if s.Error != "" {
		lines = append(lines, upstreams.Sentence(s.Error))
	}
	for i := range s.Sets {
		if set := &s.Sets[i]; set.InStep.IsZero() || set.Attempts > 0 {
			text := cmp.Or(set.Refused, set.Error, ErrFirstSync.Error())
			lines = append(lines, nameOf(set)+": "+upstreams.Sentence(text))
		}
	}
	return lines
}
