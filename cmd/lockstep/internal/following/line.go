package following

import (
	"maps"
	"slices"
	"strings"
	"time"

	"lockstep/cmd/lockstep/internal/report"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
)

// lineEvery is the shortest interval between lines about passes: a busy Source
// causes many passes a second.
const lineEvery = time.Second

// A passLine accumulates what the next line reports.
type passLine struct {
	at                        time.Time // of the last line
	created, updated, deleted int64
	failed, refused           int64
	via                       string
	lag                       time.Duration // of the newest change that came by notification
	sets                      map[string]bool
}

// reportPass reports a pass, now or with the next line.
func (f *Run) reportPass(r *destination.Report) {
	if f.o.Out.Quiet || r.Created+r.Updated+r.Deleted+r.Failed+r.Refused == 0 {
		return
	}
	s := f.status()
	f.mu.Lock()
	defer f.mu.Unlock()
	l := &f.line
	l.created, l.updated, l.deleted = l.created+r.Created, l.updated+r.Updated, l.deleted+r.Deleted
	l.failed, l.refused, l.via = l.failed+r.Failed, l.refused+r.Refused, r.Via
	if l.sets == nil {
		l.sets = map[string]bool{}
	}
	for _, set := range r.BySet {
		l.sets[set.Name] = true
		for i := range s.Sets {
			if s.Sets[i].URI == set.URI {
				l.lag = s.Sets[i].Lag
			}
		}
	}
	if time.Since(l.at) >= lineEvery {
		f.flush()
	}
}

// flushPasses prints the line that was gathered, when it is time.
func (f *Run) flushPasses(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Sub(f.line.at) >= lineEvery {
		f.flush()
	}
}

// flush prints the line that was gathered, if any. f.mu is held.
func (f *Run) flush() {
	l := &f.line
	if len(l.sets) == 0 {
		return
	}
	text := "mirrored " + report.TallyText(l.created, l.updated, l.deleted, 0, l.failed, l.refused)
	if len(f.said) > 1 {
		text += " in " + strings.Join(slices.Sorted(maps.Keys(l.sets)), ", ")
	}
	if l.via == destination.ViaNotification && l.lag > 0 && l.lag < time.Minute {
		text += "; " + term.Elapsed(l.lag) + " after the change"
	}
	now := time.Now()
	f.io.Errorf("%s  %s\n", term.Clock(now), text)
	*l = passLine{at: now}
}
