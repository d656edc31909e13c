package stage

import (
	"hash/maphash"
	"sync"

	"lockstep/destination/internal/desired"
	"lockstep/resourcesync"
)

// maxLatest caps the resources of which a [latest] knows: it costs some 60 bytes
// for each. Changes of the others are staged, all of them.
const maxLatest = 300_000

const latestShards = 16

// A Latest knows the newest changes that were staged, so that older ones of the
// same resources need not be: most changes in archives were superseded long ago.
// Several readers share one; those of the newest documents come first.
type Latest struct {
	seeds  [2]maphash.Seed // unknown to the Source, so that it cannot make two resources collide
	until  resourcesync.Datetime
	shards [latestShards]struct {
		mu sync.Mutex // guards at
		at map[latestKey]resourcesync.Datetime
	}
}

type latestKey [2]uint64

// NewLatest returns a Latest that ignores changes after until, unless it is zero.
func NewLatest(until resourcesync.Datetime) *Latest {
	l := &Latest{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, until: until}
	for i := range l.shards {
		l.shards[i].at = map[latestKey]resourcesync.Datetime{}
	}
	return l
}

// Has reports whether a later change than w was staged, which makes w
// irrelevant. If not, w counts as staged from now on, unless it may be more
// than a single change: one with links may be a step of several.
func (l *Latest) Has(w *desired.Resource, e *resourcesync.Entry) bool {
	t := e.Datetime
	if t.IsZero() {
		return false // whether its lastmod counts is not known before the end of the document (RS-EM-07)
	}
	k := latestKey{maphash.String(l.seeds[0], w.URI), maphash.String(l.seeds[1], w.URI)}
	s := &l.shards[k[0]%latestShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	last, ok := s.at[k]
	switch {
	case ok && t.Compare(last) < 0:
		return true
	case len(w.Links) > 0, !ok && len(s.at) >= maxLatest/latestShards:
	case !l.until.IsZero() && t.Compare(l.until) > 0: // it is left out itself
	default:
		s.at[k] = t
	}
	return false
}
