package push

import (
	"lockstep/destination/internal/desired"
	"lockstep/resourcesync"
)

// Flags of an encoded event.
const (
	flagGone = 1 << iota
	flagFresh
	flagCertain
	flagProven
	flagGuard   // a time follows
	flagBalance // the record is a balance, not an event
	flagCreated // the balance is balanceCreated; with flagGone: balanceGone
)

func appendEvent(b []byte, k Key, e *Event) []byte {
	flags := flagOf(e.Gone, flagGone) | flagOf(e.Fresh, flagFresh) | flagOf(e.certain, flagCertain) | flagOf(e.proven, flagProven) | flagOf(!e.guard.IsZero(), flagGuard)
	b = append(b, k[:]...)
	b = append(b, e.Fingerprint[:]...)
	b = append(b, flags)
	b = desired.AppendDatetime(b, e.At)
	b = desired.AppendDatetime(b, resourcesync.NewDatetime(e.Came))
	if !e.guard.IsZero() {
		b = desired.AppendDatetime(b, e.guard)
	}
	return b
}

func appendBalance(b []byte, k Key, is balance) []byte {
	b = append(b, k[:]...)
	b = append(b, make([]byte, len(Event{}.Fingerprint))...)
	return append(b, flagBalance|flagOf(is == balanceGone, flagGone)|flagOf(is == balanceCreated, flagCreated))
}

func (p *State) decodeEvents(b []byte) error {
	d := desired.Decoder{B: string(b)}
	for len(d.B) > 0 {
		var n Announced
		if len(d.B) < len(n.Key)+len(n.Fingerprint) {
			return desired.ErrDamaged
		}
		copy(n.Key[:], d.B)
		copy(n.Fingerprint[:], d.B[len(n.Key):])
		d.B = d.B[len(n.Key)+len(n.Fingerprint):]
		flags := d.Byte()
		if flags&flagBalance != 0 {
			p.setBalance(n.Key, flags)
			continue
		}
		n.Gone, n.Fresh, n.certain, n.proven = flags&flagGone != 0, flags&flagFresh != 0, flags&flagCertain != 0, flags&flagProven != 0
		n.At, n.Came = d.Datetime(), d.Datetime().Time()
		if flags&flagGuard != 0 {
			n.guard = d.Datetime()
		}
		if !d.OK() {
			return desired.ErrDamaged
		}
		if !n.certain && !n.isAhead() && n.At.Compare(n.guard) > 0 {
			n.guard = n.At // it may have been applied before the process ended
		}
		p.events[n.Key] = n.Event
	}
	return nil
}

func (p *State) setBalance(k Key, flags byte) {
	switch {
	case flags&flagGone != 0:
		p.balance[k] = balanceGone
	case flags&flagCreated != 0:
		p.balance[k] = balanceCreated
	default:
		delete(p.balance, k)
	}
}

func flagOf(is bool, flag byte) byte {
	if is {
		return flag
	}
	return 0
}
