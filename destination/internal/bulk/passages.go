package bulk

import (
	"cmp"
	"slices"

	"lockstep/destination/internal/dump"
	"lockstep/destination/internal/plan"
	"lockstep/internal/unpack"
)

const (
	// lotBytes is how much of a package is held in memory at a time by each
	// worker. Longer members are read as they come.
	lotBytes = 256 << 10

	// mergeGap is how many bytes that are not wanted are read over rather than
	// asking again: about what comes in the time of a round trip.
	mergeGap = 512 << 10

	// What could come at once is asked for in several passages: one connection
	// over a distance does not fill the line. They are as long as it takes for
	// each of the streams to get passagesEach, within these bounds.
	leastPassage = 1 << 20
	mostPassage  = 8 << 20
	passagesEach = 2

	// maxStreams is how many passages are read at a time.
	maxStreams = 4
)

// A piece is a member that is wanted, by one resource or more.
type piece struct {
	member  *unpack.Member
	actions []*plan.Action
}

// A lot is a run of pieces that is read at once; or one long piece.
type lot struct {
	from, to int64
	pieces   []piece
}

// A passage is a run of lots that is read with one request.
type passage []lot

// plan finds what is left in the directory, and decides how it is read. What is
// not there, or must not be read, is handed back.
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
	slices.SortFunc(pieces, func(a, b piece) int { return cmp.Compare(a.member.Offset, b.member.Offset) })
	return passagesOf(lotsOf(pieces))
}

// lotsOf gathers small neighbours.
func lotsOf(pieces []piece) []lot {
	var lots []lot
	for _, p := range pieces {
		from := p.member.Offset
		to := from + p.member.Extent()
		if to-from > lotBytes {
			for _, a := range p.actions { // its bytes come as a stream: once for each
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

// passagesOf joins lots if the bytes between them are not worth another
// request, and splits long ones.
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
