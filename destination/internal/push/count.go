package push

// CountFromPeak begins to measure how much of a set is lost, if that has not begun:
// a notification announces a deletion, and the set has held resources. The measure
// is the largest number of resources since then, so it includes deletions by
// notifications and by the pulls between them, and a set whose resources are
// replaced one by one loses nothing.
func (p *State) CountFromPeak(held int64) {
	if p.Peak == 0 {
		p.Peak = max(0, held+p.Deleted-p.Created)
	}
}

// RestartCount discards the count of deletions: all of the set was compared with
// what the Source has, or a user who ran the pull has seen its result.
func (p *State) RestartCount() {
	if p == nil {
		return
	}
	p.forgetBalance()
	p.moved = p.moved || p.Peak != 0
	p.Peak = 0
}

// Released records that a resource is no longer in the set but stays in the mirror,
// because another set has it: it is not lost.
func (p *State) Released() {
	if p != nil && p.Peak > 0 {
		p.Peak, p.moved = p.Peak-1, true
	}
}

// AddLoss adds to a plan that deletes resources, out of the total that the set
// holds, what was deleted before: by notifications since the last pull, of which
// the plan undoes temporary creations, and before that.
func (p *State) AddLoss(deleted, total, temporary int64) (int64, int64) {
	if p == nil {
		return deleted, total
	}
	deleted += p.Deleted - temporary
	total += p.Deleted - p.Created // as the last pull left it
	if lost := p.Peak - total; p.Peak > 0 && lost > 0 {
		return deleted + lost, p.Peak
	}
	return deleted, total
}

// raisePeak records how many resources the set has after a pull.
func (p *State) raisePeak(held int64) {
	if p.Peak > 0 && held > p.Peak {
		p.Peak, p.moved = held, true
	}
}
