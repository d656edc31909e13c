package destination

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

const (
	docPush   = "push/"   // and the number of a set: a pushState
	docPushed = "pushed/" // and the number of a set, and another: what notifications brought, see pushedEvent
)

const (
	// maxPushed is for how many resources it is remembered what notifications
	// brought; before there are more the set is pulled.
	maxPushed = 100_000

	// clockSlack is how far a notification may be ahead of the Source's clock,
	// as far as we know that clock.
	clockSlack = 5 * time.Minute

	// maxLag is how long the Source's Change List may take to list what was
	// notified, and maxListLag, if there is none, how long its Resource List
	// may. What they have not listed by then was not true.
	maxLag     = time.Hour
	maxListLag = 24 * time.Hour
)

// A pushState is what is known of a set by notifications alone, since it was
// last pulled. What a pull found is in the setState, which notifications do not
// change: a pull continues from where the last one ended, and so checks all
// that was notified.
//
// The events are in documents of their own, one for each pass.
type pushState struct {
	Until   time.Time `json:"until,omitzero"`     // all changes before are here, by the word of notifications
	Chain   interval  `json:"chain,omitzero"`     // behind a gap: notifications that continue from each other
	Deleted int64     `json:"deleted,omitempty"`  // resources that were here at the last pull, and are gone by notifications
	Created int64     `json:"created,omitempty"`  // resources that were not, and are here by notifications
	EventID string    `json:"event_id,omitempty"` // of the last event of the stream that was processed
	Stream  string    `json:"stream,omitempty"`   // the address that EventID is of
	First   int       `json:"first,omitempty"`    // number of the first document of events
	Next    int       `json:"next,omitempty"`     // number of the next
	Unsure  bool      `json:"unsure,omitempty"`   // there was more than can be remembered
	Doubted time.Time `json:"doubted,omitzero"`   // when all was last compared because of doubts

	Paused time.Time `json:"paused,omitzero"`  // until then notifications are not used
	Reason string    `json:"reason,omitempty"` // why
	Lies   int64     `json:"lies,omitempty"`   // notified changes that the Source's documents contradict

	events  map[resourceKey]pushedEvent
	balance map[resourceKey]balance
	open    int // number, plus 1, of the document of what is expected; zero: there is none
}

// newPushState returns a state in which nothing was notified.
func newPushState() *pushState {
	return &pushState{events: map[resourceKey]pushedEvent{}, balance: map[resourceKey]balance{}}
}

type interval struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
}

// A resourceKey is a hash of a URI.
type resourceKey [16]byte

func keyOfResource(uri string) (k resourceKey) {
	sum := sha256.Sum256([]byte(uri))
	copy(k[:], sum[:])
	return k
}

// A pushedEvent is the newest event of a resource that a notification
// announced.
type pushedEvent struct {
	at      resourcesync.Datetime
	print   [8]byte               // of the event, see fingerprint
	gone    bool                  // it was deleted, and the Source confirmed it
	fresh   bool                  // it was later than all that the Source's documents said when it came
	certain bool                  // the pass over it has ended; else it is unknown
	proven  bool                  // it changed what is here
	guard   resourcesync.Datetime // of the newest event that did: documents of an earlier time lag behind
	seen    resourcesync.Datetime // the newest event of the resource that the Change List has listed since
	left    bool                  // which was a deletion
	came    time.Time             // when we learned of it
}

// loadPush reads what notifications brought to the set with number n.
func loadPush(ctx context.Context, j journal.Journal, n int) (*pushState, error) {
	p := newPushState()
	if _, err := saved.Load(ctx, j, fmt.Sprint(docPush, n), p); err != nil {
		return nil, err
	}
	now := time.Now()
	p.Paused, p.Doubted = saved.Until(p.Paused, now, pushPause), saved.Past(p.Doubted, now)
	for i := p.First; i < p.Next; i++ {
		b, err := j.Load(ctx, pushedName(n, i))
		if err != nil {
			return nil, err
		}
		if err := p.decodeEvents(b); err != nil {
			return nil, fmt.Errorf("read %s from journal: %w", pushedName(n, i), err)
		}
	}
	return p, nil
}

func pushedName(set, i int) string { return fmt.Sprintf("%s%d/%d", docPushed, set, i) }

// isEmpty reports whether there is nothing to be kept.
func (p *pushState) isEmpty() bool {
	return len(p.events) == 0 && p.Deleted == 0 && p.Chain == (interval{}) && p.First == p.Next && !p.Unsure && len(p.balance) == 0 && p.Created == 0
}

// A pushNews is an event to be remembered.
type pushNews struct {
	key resourceKey
	pushedEvent
}

// expect records what a pass is going to apply, and adds to docs what has to be
// saved of it before: even if the pass is interrupted, it is known what may
// have been done, for a pull to compare with the Source's documents.
func (p *pushState) expect(set int, news []pushNews, docs map[string][]byte) {
	var b []byte
	for i := range news {
		n := &news[i]
		was, known := p.events[n.key]
		if known && was.at.Compare(n.at) > 0 {
			continue
		}
		if !known && len(p.events) >= 2*maxPushed { // and no pull got through
			p.Unsure = true
			continue
		}
		n.seen, n.left, n.guard = was.seen, was.left, was.guard
		p.events[n.key] = n.pushedEvent
		b = appendEvent(b, n.key, &n.pushedEvent)
	}
	p.open = 0
	if p.append(set, b, docs); len(b) > 0 {
		p.open = p.Next
	}
}

// append adds to docs one more document of events, and the state.
func (p *pushState) append(set int, b []byte, docs map[string][]byte) {
	if len(b) > 0 {
		docs[pushedName(set, p.Next)] = b
		p.Next++
	}
	docs[fmt.Sprint(docPush, set)] = saved.Encode(p)
}

// The flags of a record of events.
const (
	flagGone = 1 << iota
	flagFresh
	flagCertain
	flagProven
	flagGuard   // a time follows
	flagBalance // it is no event but a balance
	flagCreated // which is balanceCreated; with flagGone it is balanceGone
)

func appendEvent(b []byte, k resourceKey, e *pushedEvent) []byte {
	flags := flagOf(e.gone, flagGone) | flagOf(e.fresh, flagFresh) | flagOf(e.certain, flagCertain) | flagOf(e.proven, flagProven) | flagOf(!e.guard.IsZero(), flagGuard)
	b = append(b, k[:]...)
	b = append(b, e.print[:]...)
	b = append(b, flags)
	b = desired.AppendDatetime(b, e.at)
	b = desired.AppendDatetime(b, resourcesync.NewDatetime(e.came))
	if !e.guard.IsZero() {
		b = desired.AppendDatetime(b, e.guard)
	}
	return b
}

func appendBalance(b []byte, k resourceKey, is balance) []byte {
	b = append(b, k[:]...)
	b = append(b, make([]byte, len(pushedEvent{}.print))...)
	return append(b, flagBalance|flagOf(is == balanceGone, flagGone)|flagOf(is == balanceCreated, flagCreated))
}

func (p *pushState) decodeEvents(b []byte) error {
	d := desired.Decoder{B: string(b)}
	for len(d.B) > 0 {
		var n pushNews
		if len(d.B) < len(n.key)+len(n.print) {
			return desired.ErrDamaged
		}
		copy(n.key[:], d.B)
		copy(n.print[:], d.B[len(n.key):])
		d.B = d.B[len(n.key)+len(n.print):]
		flags := d.Byte()
		if flags&flagBalance != 0 {
			p.setBalance(n.key, flags)
			continue
		}
		n.gone, n.fresh, n.certain, n.proven = flags&flagGone != 0, flags&flagFresh != 0, flags&flagCertain != 0, flags&flagProven != 0
		n.at, n.came = d.Datetime(), d.Datetime().Time()
		if flags&flagGuard != 0 {
			n.guard = d.Datetime()
		}
		if !d.OK() {
			return desired.ErrDamaged
		}
		if !n.certain && !n.isAhead() && n.at.Compare(n.guard) > 0 {
			n.guard = n.at // it may have been applied before the process ended
		}
		p.events[n.key] = n.pushedEvent
	}
	return nil
}

func (p *pushState) setBalance(k resourceKey, flags byte) {
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

// aheadSlack is how far the time of an event may be ahead of the time at which
// it arrived.
const aheadSlack = time.Second

// isAhead reports whether the event is of a time that had not come when it was
// notified: what is true from then on is unknown.
func (e *pushedEvent) isAhead() bool { return e.at.Time().After(e.came.Add(aheadSlack)) }

// printOf is the fingerprint of w at t, as it is remembered.
func printOf(w *desired.Resource, t resourcesync.Datetime) (p [8]byte) {
	plain := *w
	plain.Nth = 0 // of which document it is does not matter
	copy(p[:], desired.Fingerprint(&plain, t))
	return p
}

// span returns the first instant of the time d denotes, and the first behind
// it: the datetimes of some Sources are of whole seconds, or days.
func span(d resourcesync.Datetime) (from, to time.Time) {
	from = d.Time()
	switch d.Granularity() {
	case resourcesync.Second:
		return from, from.Add(time.Second)
	case resourcesync.Minute:
		return from, from.Add(time.Minute)
	case resourcesync.Day:
		return from, from.AddDate(0, 0, 1)
	case resourcesync.Month:
		return from, from.AddDate(0, 1, 0)
	case resourcesync.Year:
		return from, from.AddDate(1, 0, 0)
	}
	return from, from.Add(1)
}

// isBefore reports whether all of the time a denotes is before t.
func isBefore(a resourcesync.Datetime, t time.Time) bool {
	_, to := span(a)
	return !to.After(t)
}

// isKnown reports whether the event w at t is older than the last that was
// applied to the resource, or that one (RN-RX-02).
func (p *pushState) isKnown(st *setState, w *desired.Resource, t resourcesync.Datetime) bool {
	if t.IsZero() {
		return false
	}
	if was, ok := p.events[keyOfResource(w.URI)]; ok && !was.at.IsZero() {
		if from, _ := span(was.guard); !was.guard.IsZero() && isBefore(t, from) {
			return true
		}
		if was.certain && was.at.Compare(t) == 0 && was.print == printOf(w, t) {
			return true
		}
	}
	if saved.Time(t).Equal(st.SeenTime) && slices.Contains(st.Seen, desired.Fingerprint(w, t)) {
		return true // a pull has read it
	}
	return !st.Watermark.IsZero() && !st.Ahead && isBefore(t, st.Watermark)
}

// isNewer reports whether a notification brought a later state of the resource
// than that of the time at, which a document describes. A document that does
// not state its time may be old.
func (p *pushState) isNewer(uri string, at resourcesync.Datetime) bool {
	if p == nil || len(p.events) == 0 {
		return false
	}
	was, ok := p.events[keyOfResource(uri)]
	if !ok || was.guard.IsZero() {
		return false
	}
	return at.IsZero() || at.Compare(was.guard) < 0
}

// saw records that the Change List contains an event of the resource.
func (p *pushState) saw(uri string, at resourcesync.Datetime, gone bool) {
	if p == nil || len(p.events) == 0 {
		return
	}
	k := keyOfResource(uri)
	if was, ok := p.events[k]; ok && (was.seen.IsZero() || at.Compare(was.seen) >= 0) {
		was.seen, was.left = at, gone
		p.events[k] = was
	}
}

// pulled is called when all the Source says was read, and is here. It returns how
// many changes were notified that the Source's own documents should list by now,
// and do not; and of these how many its Change List, which covers their times,
// contradicts: they changed nothing here. With compared, all was compared with
// what the Source has: then there is nothing to doubt.
func (p *pushState) pulled(st *setState, now time.Time, compared bool) (doubtful, lies int) {
	watermark, lag := st.Watermark, maxLag
	if st.Changes == "" {
		lag = maxListLag
	}
	if compared {
		p.Unsure = false
	}
	for k, e := range p.events {
		told := !e.seen.IsZero() && (e.seen.Compare(e.at) > 0 || e.seen.Compare(e.at) == 0 && e.left == e.gone)
		_, seen := span(e.seen)
		told = told || !e.gone && !e.left && !e.seen.IsZero() && seen.After(e.at.Time()) // in whole seconds
		passed := isBefore(e.at, watermark)
		switch {
		case told && !watermark.Before(e.at.Time()), compared && passed:
			delete(p.events, k)
		case passed && e.fresh && e.certain && !e.proven && !compared && !st.Compared:
			delete(p.events, k)
			lies++
		case passed:
			doubtful++
		case now.Sub(e.came) > lag: // and it no longer masks later events
			delete(p.events, k)
			p.Unsure = p.Unsure || !compared
		}
	}
	p.forgetBalance()
	if p.Chain != (interval{}) && !p.Chain.From.After(watermark) { // the gap is closed
		p.Until, p.Chain = saved.Latest(p.Until, p.Chain.Until), interval{}
	}
	if p.Unsure && doubtful == 0 {
		doubtful = 1
	}
	return doubtful, lies
}

// save returns the documents of the state as a whole, in place of those that
// are there.
func (p *pushState) save(set int) map[string][]byte {
	docs := map[string][]byte{}
	for i := p.First; i < p.Next; i++ {
		docs[pushedName(set, i)] = nil
	}
	p.First = p.Next
	var b []byte
	for k, e := range p.events {
		b = appendEvent(b, k, &e)
	}
	for k, is := range p.balance {
		b = appendBalance(b, k, is)
	}
	p.append(set, b, docs)
	return docs
}

// continues records that the interval from, until was notified. It reports
// whether there is a gap before it (RN-RX-03) that was not known before.
func (p *pushState) continues(watermark time.Time, from, until resourcesync.Datetime, limit time.Time) (gap bool) {
	f, u := saved.Time(from), saved.Time(until)
	if u.After(limit) {
		u = time.Time{} // that time has not come yet
	}
	switch {
	case from.IsZero() || f.After(limit):
		return true
	case !f.After(saved.Latest(watermark, p.Until)):
		p.Until = saved.Latest(p.Until, u)
		return false
	case p.Chain != (interval{}) && !f.After(p.Chain.Until):
		p.Chain.Until = saved.Latest(p.Chain.Until, u)
		return false
	}
	p.Chain = interval{f, saved.Latest(f, u)}
	return true
}
