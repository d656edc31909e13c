package bulk

import (
	"slices"
	"sort"

	"lockstep/destination/internal/dump"
	"lockstep/destination/internal/plan"
	"lockstep/internal/unpack"
)

const (
	// lotBytes is the number of bytes of a package that each worker holds in
	// memory. Longer members are processed while they are read.
	lotBytes = 256 << 10

	// mergeGap is the number of unneeded bytes that are read and discarded rather
	// than sending another request: about as many as arrive during a round trip.
	mergeGap = 512 << 10

	// A range that one request could fetch is divided into several passages,
	// because one connection over a long distance does not use the full bandwidth.
	// Passages are long enough for each stream to get passagesEach of them, within
	// these limits.
	leastPassage = 1 << 20
	mostPassage  = 8 << 20
	passagesEach = 2

	// maxStreams is the number of passages read concurrently.
	maxStreams = 4
)

// A piece is a member that one or more resources need.
type piece struct {
	member  *unpack.Member
	actions []*plan.Action
}

// A lot is a run of pieces that is read at once, or one long piece.
type lot struct {
	from, to int64
	pieces   []piece
}

// A passage is a run of lots that is read with one request.
type passage []lot

// plan finds the remaining members in the directory and decides how to read them.
// It hands back actions whose member does not exist or must not be read.
func (u *unpacking) plan(dir *unpack.Directory) []passage {
	found := map[*unpack.Member][]*plan.Action{}
	u.left = slices.DeleteFunc(slices.Clone(u.left), func(a *plan.Action) bool {
		m, err := dump.FindMember(dir, u.path(a), a.Length)
		if err != nil {
			u.refuse(err, a)
			return true
		}
		found[m] = append(found[m], a)
		return false
	})
	pieces := make([]piece, 0, len(found))
	for m, as := range found {
		pieces = append(pieces, piece{m, as})
	}
	sort.SliceStable(pieces, func(i, j int) bool { return pieces[i].member.Offset < pieces[j].member.Offset })
	return passagesOf(lotsOf(pieces))
}

// lotsOf combines small neighboring pieces.
func lotsOf(pieces []piece) []lot {
	var lots []lot
	for _, p := range pieces {
		from := p.member.Offset
		to := from + p.member.Extent()
		if to-from > lotBytes {
			for _, a := range p.actions { // its bytes are a stream, which is read once for each
				lots = append(lots, lot{from, to, []piece{{p.member, []*plan.Action{a}}}})
			}
			continue
		}
		if n := len(lots) - 1; n >= 0 && to-lots[n].from <= lotBytes {
			lots[n].to = to
			lots[n].pieces = append(lots[n].pieces, p)
			continue
		}
		lots = append(lots, lot{from, to, []piece{p}})
	}
	return lots
}

// passagesOf joins lots if the bytes between them are not worth another request,
// and splits long ones.
func passagesOf(lots []lot) []passage {
	var sum int64
	for _, c := range lots {
		sum += c.to - c.from
	}
	most := min(max(sum/(maxStreams*passagesEach), leastPassage), mostPassage)
	var all []passage
	for _, c := range lots {
		if n := len(all) - 1; n >= 0 {
			last := all[n]
			end, long := last[len(last)-1].to, c.to-last[0].from
			if c.from >= end && c.from-end <= mergeGap && long <= most {
				all[n] = append(last, c)
				continue
			}
		}
		all = append(all, passage{c})
	}
	return all
}
