package stage

import (
	"hash/maphash"
	"slices"
	"sync"

	"lockstep/destination/internal/desired"
	"lockstep/resourcesync"
)

// maxLatest limits the resources that a [Latest] records, each of which takes about
// 60 bytes. All changes of other resources are staged.
const maxLatest = 300_000

const latestShards = 16

// A Latest records the newest changes that were staged, so that older changes of
// the same resources are not staged: most changes in archives were superseded long
// ago. Several readers can share one; documents should be read newest first.
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

// isStep reports whether a link can make a change one step of several: it leads to a
// patch, or to that version.
func isStep(l resourcesync.Link) bool {
	return l.Rel == resourcesync.RelPatch || l.Rel == resourcesync.RelMemento
}

// Has reports whether a later change than w was staged, so that w is irrelevant. If
// not, w is recorded as staged, unless it leads to a patch or a memento, because it may
// then be one step of several.
func (l *Latest) Has(w *desired.Resource, e *resourcesync.Entry) bool {
	t := e.Datetime
	if t.IsZero() {
		return false // whether its lastmod counts is unknown before the end of the document (RS-EM-07)
	}
	k := latestKey{maphash.String(l.seeds[0], w.URI), maphash.String(l.seeds[1], w.URI)}
	s := &l.shards[k[0]%latestShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	last, ok := s.at[k]
	switch {
	case ok && t.Compare(last) < 0:
		return true
	case slices.ContainsFunc(w.Links, isStep), !ok && len(s.at) >= maxLatest/latestShards:
	case !l.until.IsZero() && t.Compare(l.until) > 0: // it is not staged itself
	default:
		s.at[k] = t
	}
	return false
}
