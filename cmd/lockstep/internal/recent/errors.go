package recent

import (
	"slices"
	"sort"
	"time"
)

// A Problem is an error that a process has, or had.
type Problem struct {
	What  string    `json:"what"`                 // the set, upstream or subscriber that it is about
	Error string    `json:"error"`                // in one sentence
	Hint  string    `json:"hint,omitempty"`       // what to do about it
	Since time.Time `json:"since"`                // when it was first seen
	Until time.Time `json:"until,omitzero"`       // when it was gone; zero: it is there
	Times int64     `json:"occurrences,omitzero"` // how often it came back, with this text, in addition to the first time
}

// Limits of what is remembered of errors: of a Source with thousands of failing upstreams the
// first are shown.
const (
	mostErrors  = 50
	mostText    = 1000 // bytes of one text
	rememberFor = 7 * 24 * time.Hour
)

// An errorLog has errors, those that are gone first.
type errorLog struct{ problems []Problem }

// all returns the errors, those that are there first, and of these the newest.
func (l *errorLog) all() []Problem {
	all := slices.Clone(l.problems)
	sort.SliceStable(all, func(i, k int) bool {
		a, b := &all[i], &all[k]
		switch {
		case a.Until.IsZero() != b.Until.IsZero():
			return a.Until.IsZero()
		case a.Until.IsZero():
			return a.Since.After(b.Since)
		}
		return a.Until.After(b.Until)
	})
	return all
}

// note takes note of the errors that there are now, and reports whether they are others than
// before.
func (l *errorLog) note(now []Problem, at time.Time) (changed bool) {
	at = at.UTC().Truncate(time.Millisecond)
	there := make(map[[2]string]bool, len(now))
	for i := range now[:min(len(now), mostErrors)] {
		p := now[i]
		p.What, p.Error, p.Hint = cut(p.What), cut(p.Error), cut(p.Hint)
		there[[2]string{p.What, p.Error}] = true
		changed = l.see(p, at) || changed
	}
	for i := range l.problems {
		if p := &l.problems[i]; p.Until.IsZero() && !there[[2]string{p.What, p.Error}] {
			p.Until, changed = at, true
		}
	}
	before := len(l.problems)
	l.problems = slices.DeleteFunc(l.problems, func(p Problem) bool { return !p.Until.IsZero() && at.Sub(p.Until) > rememberFor })
	if all := l.all(); len(all) > mostErrors {
		l.problems = all[:mostErrors]
	}
	return changed || len(l.problems) != before
}

// see notes that an error is there, and reports whether that is new.
func (l *errorLog) see(p Problem, at time.Time) bool {
	i := slices.IndexFunc(l.problems, func(q Problem) bool { return q.What == p.What && q.Error == p.Error })
	if i < 0 {
		if p.Since.IsZero() || p.Since.After(at) {
			p.Since = at
		}
		p.Until = time.Time{}
		l.problems = append(l.problems, p)
		return true
	}
	old := &l.problems[i]
	if old.Hint = p.Hint; old.Until.IsZero() {
		return false
	}
	old.Until = time.Time{}
	old.Times++
	return true
}

// cut shortens a text.
func cut(text string) string {
	if len(text) <= mostText {
		return text
	}
	end := mostText
	for end > 0 && text[end]&0xc0 == 0x80 { // within a character
		end--
	}
	return text[:end] + "…"
}
