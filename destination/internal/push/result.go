package push

import (
	"lockstep/destination/internal/saved"
)

// A Result is the effect of a pass on a resource.
type Result uint8

const (
	Unchanged Result = iota + 1 // nothing had to be done
	Updated                     // its content was replaced
	Created                     // it was added to the mirror
	Removed                     // it was removed from the mirror
)

// Results are the results of a pass over notifications. Their number is limited by
// the size of the notifications. A nil map discards them.
type Results map[Key]Result

// Add adds a result. If several versions of a resource were applied in one pass,
// the result is their combined effect.
func (r Results) Add(uri string, is Result) {
	if r == nil {
		return
	}
	k := KeyOf(uri)
	switch was := r[k]; {
	case was > Unchanged && is == Unchanged:
	case was == Created && is == Updated:
	case was == Created && is == Removed:
		r[k] = Unchanged
	case was == Removed && is == Created:
		r[k] = Updated
	default:
		r[k] = is
	}
}

// A balance is the difference, made by notifications alone, between a resource now
// and at the last pull of its set. A resource that was created and removed in
// between has none.
type balance uint8

const (
	balanceGone    balance = iota + 1 // existed at the pull and does not exist now
	balanceCreated                    // did not exist at the pull and exists now
)

// IsTemporary reports whether the resource was created by notifications alone:
// deleting it removes nothing that existed when the set was last pulled.
func (p *State) IsTemporary(uri string) bool {
	return p != nil && len(p.balance) > 0 && p.balance[KeyOf(uri)] == balanceCreated
}

// Settle records the results of expected events and of confirmed deletions, and
// adds to docs the documents that have to be saved.
func (p *State) Settle(set int, announced []Announced, rs Results, docs map[string][]byte) {
	for i := range announced {
		n := &announced[i]
		e, ok := p.events[n.Key]
		if !ok || e.At.Compare(n.At) != 0 || e.Fingerprint != n.Fingerprint {
			continue
		}
		e.certain = true
		if rs[n.Key] > Unchanged {
			e.proven = true
			if !e.isAhead() && e.At.Compare(e.guard) > 0 {
				e.guard = e.At
			}
		}
		p.events[n.Key] = e
	}
	var b []byte
	for k, is := range rs {
		if was := p.balance[k]; p.move(k, was, is) != was {
			b = appendBalance(b, k, p.balance[k])
		}
	}
	for i := range announced {
		if e, ok := p.events[announced[i].Key]; ok {
			b = appendEvent(b, announced[i].Key, &e)
		}
	}
	if p.open == 0 {
		p.append(set, b, docs)
		return
	}
	docs[pushedName(set, p.open-1)] = b // replaces the document of expected events
	docs[DocName(set)] = saved.Encode(p)
	p.open = 0
}

// move updates the balance of a resource by a result and returns it.
func (p *State) move(k Key, was balance, is Result) balance {
	switch {
	case is == Created && was == balanceGone:
		delete(p.balance, k)
		p.Deleted--
	case is == Created && was == 0 && len(p.balance) < 2*maxPushed:
		p.balance[k] = balanceCreated
		p.Created++
	case is == Removed && was == balanceCreated:
		delete(p.balance, k)
		p.Created--
	case is == Removed && was == 0:
		p.Deleted++
		if len(p.balance) < 2*maxPushed { // otherwise it counts permanently
			p.balance[k] = balanceGone
		}
	}
	return p.balance[k]
}

// forgetBalance starts a new balance: the Source's documents have brought the set
// into step.
func (p *State) forgetBalance() {
	clear(p.balance)
	p.Deleted, p.Created = 0, 0
}
