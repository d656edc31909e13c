package destination

import (
	"fmt"

	"lockstep/destination/internal/saved"
)

// A result is what a pass did to a resource.
type result uint8

const (
	resultNone    result = iota + 1 // nothing had to be done
	resultUpdated                   // its content was replaced
	resultCreated                   // it came to the mirror
	resultRemoved                   // it was removed from the mirror
)

// results are the results of a pass over notifications, which is bounded by the
// size of the notifications. A nil map takes none.
type results map[resourceKey]result

// note adds a result. Of several versions of a resource that were applied in one
// pass the result is what they come to together.
func (r results) note(a *action, is result) {
	if r == nil {
		return
	}
	k := keyOfResource(a.URI)
	switch was := r[k]; {
	case was > resultNone && is == resultNone:
	case was == resultCreated && is == resultUpdated:
	case was == resultCreated && is == resultRemoved:
		r[k] = resultNone
	case was == resultRemoved && is == resultCreated:
		r[k] = resultUpdated
	default:
		r[k] = is
	}
}

// resultOf is the result of an action that changed the mirror.
func resultOf(a *action) result {
	switch {
	case a.verb == verbRemove:
		return resultRemoved
	case a.isHeld():
		return resultUpdated
	}
	return resultCreated
}

// A balance says how the resources of a set differ by notifications alone from
// what they were when the set was last pulled. A file that was created and
// removed in between is in none of it.
type balance uint8

const (
	balanceGone    balance = iota + 1 // it was there and is gone
	balanceCreated                    // it was not there and is
)

// isTemporary reports whether the resource was created by notifications alone:
// its deletion takes nothing away that was there when the set was last pulled.
func (p *pushState) isTemporary(uri string) bool {
	return p != nil && len(p.balance) > 0 && p.balance[keyOfResource(uri)] == balanceCreated
}

// settle records the results of what was expected and of confirmed deletions,
// and adds to docs what has to be saved of it.
func (p *pushState) settle(set int, news []pushNews, rs results, docs map[string][]byte) {
	for i := range news {
		n := &news[i]
		e, ok := p.events[n.key]
		if !ok || e.at.Compare(n.at) != 0 || e.print != n.print {
			continue
		}
		e.certain = true
		if rs[n.key] > resultNone {
			e.proven = true
			if !e.isAhead() && e.at.Compare(e.guard) > 0 {
				e.guard = e.at
			}
		}
		p.events[n.key] = e
	}
	var b []byte
	for k, is := range rs {
		if was := p.balance[k]; p.move(k, was, is) != was {
			b = appendBalance(b, k, p.balance[k])
		}
	}
	for i := range news {
		if e, ok := p.events[news[i].key]; ok {
			b = appendEvent(b, news[i].key, &e)
		}
	}
	if p.open == 0 {
		p.append(set, b, docs)
		return
	}
	docs[pushedName(set, p.open-1)] = b // in place of what was expected
	docs[fmt.Sprint(docPush, set)] = saved.Encode(p)
	p.open = 0
}

// move has the balance of a resource follow a result, and returns it.
func (p *pushState) move(k resourceKey, was balance, is result) balance {
	switch {
	case is == resultCreated && was == balanceGone:
		delete(p.balance, k)
		p.Deleted--
	case is == resultCreated && was == 0 && len(p.balance) < 2*maxPushed:
		p.balance[k] = balanceCreated
		p.Created++
	case is == resultRemoved && was == balanceCreated:
		delete(p.balance, k)
		p.Created--
	case is == resultRemoved && was == 0:
		p.Deleted++
		if len(p.balance) < 2*maxPushed { // else it counts for good
			p.balance[k] = balanceGone
		}
	}
	return p.balance[k]
}

// forgetBalance begins a new balance: all of the set is being compared, or was
// brought into step by the Source's documents.
func (p *pushState) forgetBalance() {
	if p == nil {
		return
	}
	clear(p.balance)
	p.Deleted, p.Created = 0, 0
}
