package destination

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

// A latest knows the newest changes that were staged, so that older ones of the
// same resources need not be: most changes in archives were overtaken long ago.
// Several readers share one, those of the newest documents ahead.
type latest struct {
	seeds  [2]maphash.Seed // unknown to the Source: it cannot have two resources taken for one
	until  resourcesync.Datetime
	shards [latestShards]struct {
		mu sync.Mutex // guards at
		at map[latestKey]resourcesync.Datetime
	}
}

type latestKey [2]uint64

func newLatest(until resourcesync.Datetime) *latest {
	l := &latest{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, until: until}
	for i := range l.shards {
		l.shards[i].at = map[latestKey]resourcesync.Datetime{}
	}
	return l
}

// has reports whether a later change than w was staged, which makes w
// irrelevant. If not, w counts as staged from now on, unless it may be more
// than a single change: one with links may be a step of several.
func (l *latest) has(w *desired.Resource, e *resourcesync.Entry) bool {
	t := e.Datetime
	if t.IsZero() {
		return false // whether its lastmod counts is not known yet (RS-EM-07)
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
