package dir

import (
	"maps"
	"slices"
	"sync"
	"time"

	"lockstep/intake"
	"lockstep/intake/internal/filestat"
)

// maxTouched is how many paths are scanned one by one; beyond it a full scan costs
// less.
const maxTouched = 4096

// againAfter is the pause before a file is examined again that a scan could not
// settle and for which no event will arrive.
const againAfter = time.Second

// together is how much earlier a path is scanned if another one is due: a burst of
// changes results in one scan and one publication.
const together = intake.Quiet / 4

// settle is how long a file must not have changed before atRest is called for it;
// then twice as long each time. It is long enough for the file's times to
// distinguish its next change from the last one.
var settle = filestat.Tick + 2*time.Millisecond

// touched collects events until it is time to scan. The zero value is empty and
// needs only wake to be set. It is safe for concurrent use.
type touched struct {
	wake   chan struct{}         // has an element when there is something new; capacity 1
	atRest func(rel string) bool // reports that no process has the file open for writing; nil: unknown

	mu      sync.Mutex // guards the following fields
	paths   map[string]touch
	all     bool  // everything must be scanned
	allSpan touch // when that became necessary and was last confirmed
	isLost  bool  // events are missing: watches are unreliable
	renamed []string
	created map[string]bool // paths that are new names
}

// A touch contains the times of the first and the last event of a path.
type touch struct {
	first, last time.Time
	ask         time.Time // when to call atRest for the file; zero: never
	atRest      bool      // the last result of atRest
}

func (t touch) due() time.Time {
	if t.atRest {
		return t.last
	}
	at := t.last.Add(intake.Quiet)
	if most := t.first.Add(intake.Patience); most.Before(at) {
		return most
	}
	return at
}

// Touched implements [treewatch.Events]: it records an event at rel.
func (t *touched) Touched(rel string) { t.note(rel, time.Now()) }

// later records that rel must be examined once more, after a pause.
func (t *touched) later(rel string) { t.note(rel, time.Now().Add(againAfter)) }

func (t *touched) note(rel string, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all {
		t.allSpan.last = at
		return
	}
	p, known := t.paths[rel]
	now := touch{first: at, last: at}
	if t.atRest != nil {
		now.ask = at.Add(settle)
	}
	switch {
	case known:
		soon := now.ask.IsZero() || !now.ask.Before(p.ask)
		now.first = p.first
		t.paths[rel] = now
		if soon { // not earlier than before: no need to wake
			return
		}
	case len(t.paths) == maxTouched:
		t.paths = nil
		t.all, t.allSpan = true, now
	case t.paths == nil:
		t.paths = map[string]touch{rel: now}
	default:
		t.paths[rel] = now
	}
	t.signal()
}

// Created implements [treewatch.Events]: it records that something has got the name rel.
func (t *touched) Created(rel string) {
	t.mu.Lock()
	if !t.all {
		if t.created == nil {
			t.created = make(map[string]bool)
		}
		t.created[rel] = true
	}
	t.mu.Unlock()
	t.Touched(rel)
}

// Renamed implements [treewatch.Events]: it records that the file or directory at rel has moved
// with its watches.
func (t *touched) Renamed(rel string) {
	t.mu.Lock()
	t.renamed = append(t.renamed, rel)
	delete(t.created, rel) // it is there under its next name
	most := len(t.renamed) > maxTouched
	t.mu.Unlock()
	if most {
		t.Lost()
	}
	t.Touched(rel)
}

// Everything requests a full scan now.
func (t *touched) Everything() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all, t.allSpan = true, touch{}
	t.signal()
}

// Lost requests a full scan with new watches once events become rare.
func (t *touched) Lost() {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.all {
		t.all, t.allSpan.first = true, now
	}
	t.isLost, t.allSpan.last = true, now
	t.signal()
}

func (t *touched) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// ask calls atRest for the files whose time has come.
func (t *touched) ask(now time.Time) {
	if t.atRest == nil {
		return
	}
	var rels []string
	t.mu.Lock()
	for rel, p := range t.paths {
		if !p.ask.IsZero() && !p.ask.After(now) {
			rels = append(rels, rel)
		}
	}
	t.mu.Unlock()
	for _, rel := range rels {
		rests := t.atRest(rel)
		t.mu.Lock()
		if p, known := t.paths[rel]; known && !p.ask.After(now) { // else there was another event meanwhile
			p.atRest, p.ask = rests, time.Time{}
			if again := p.last.Add(2 * now.Sub(p.last)); !rests && again.Before(p.due()) {
				p.ask = again
			}
			t.paths[rel] = p
		}
		t.mu.Unlock()
	}
}

// due returns and removes the paths that are due, and says which of them are new names, or
// reports that a full scan is due.
func (t *touched) due(now time.Time) (paths, created []string, all bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all {
		if t.allSpan.due().After(now) {
			return nil, nil, false
		}
		t.all, t.paths, t.created = false, nil, nil
		return nil, nil, true
	}
	any := false
	for _, p := range t.paths {
		any = any || !p.due().After(now)
	}
	if !any {
		return nil, nil, false
	}
	for _, rel := range slices.Sorted(maps.Keys(t.paths)) {
		if !t.paths[rel].due().After(now.Add(together)) {
			paths = append(paths, rel)
			delete(t.paths, rel)
			if t.created[rel] {
				created = append(created, rel)
				delete(t.created, rel)
			}
		}
	}
	return paths, created, false
}

// soonest returns the time at which the next path is due; in an hour if there is
// none.
func (t *touched) soonest() time.Time {
	at := time.Now().Add(time.Hour)
	for _, p := range t.paths {
		if due := p.due(); due.Before(at) {
			at = due
		}
		if !p.ask.IsZero() && p.ask.Before(at) {
			at = p.ask
		}
	}
	return at
}

// next returns how long until something is due, at most an hour.
func (t *touched) next(now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all {
		return t.allSpan.due().Sub(now)
	}
	return t.soonest().Sub(now)
}

func (t *touched) takeLost() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	lost := t.isLost
	t.isLost = false
	return lost
}

func (t *touched) takeRenamed() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.renamed
	t.renamed = nil
	return r
}
