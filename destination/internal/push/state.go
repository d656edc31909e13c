// Package push stores what is known about a set from notifications alone, until the
// documents of the Source confirm or contradict it.
package push

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"time"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

const (
	docPush   = "push/"   // and the number of a set: a State
	docPushed = "pushed/" // and the number of a set, and another: events from notifications, see Event
)

const (
	// maxPushed limits the resources for which events are remembered; the set is
	// pulled before there are more.
	maxPushed = 100_000

	// ClockSlack is how far a notification may be ahead of the Source's clock, as
	// far as that clock is known.
	ClockSlack = 5 * time.Minute

	// MaxLag is how long the Source's Change List may take to list a notified
	// change, and MaxListLag, if there is no Change List, how long its Resource
	// List may take. A change that is not listed by then was not true.
	MaxLag     = time.Hour
	MaxListLag = 24 * time.Hour

	// pushPause is how long notifications of a set are ignored after the Source's
	// own documents have contradicted one.
	pushPause = 24 * time.Hour
)

// DocName returns the name of the document with the state of a set.
func DocName(set int) string { return fmt.Sprint(docPush, set) }

// A State is the knowledge about a set from notifications alone, since it was last
// pulled. The result of the pull is in the [saved.Set], which notifications do not
// change: the next pull continues from where the last one ended, and so verifies
// all notifications.
//
// The events are in documents of their own, one for each pass.
type State struct {
	Until   time.Time `json:"until,omitzero"`     // according to notifications, all changes before it are applied
	Chain   Interval  `json:"chain,omitzero"`     // notifications without a gap among them, after a gap
	Deleted int64     `json:"deleted,omitempty"`  // resources that existed at the last pull and were removed by notifications
	Created int64     `json:"created,omitempty"`  // resources that did not exist at the last pull and were created by notifications
	Peak    int64     `json:"peak,omitempty"`     // the most resources that the set had, see CountFromPeak; zero: no deletion was notified
	EventID string    `json:"event_id,omitempty"` // of the last event of the stream that was processed
	Stream  string    `json:"stream,omitempty"`   // address of the stream of EventID
	First   int       `json:"first,omitempty"`    // number of the first document of events
	Next    int       `json:"next,omitempty"`     // number of the next
	Unsure  bool      `json:"unsure,omitempty"`   // there were more events than can be remembered
	Doubted time.Time `json:"doubted,omitzero"`   // when everything was last compared because of doubts

	Paused       time.Time `json:"paused,omitzero"`  // notifications are ignored until then
	Reason       string    `json:"reason,omitempty"` // reason for Paused
	Contradicted int64     `json:"lies,omitempty"`   // notified changes that the Source's documents contradict

	events  map[Key]Event
	balance map[Key]balance
	moved   bool // Peak is to be saved
	open    int  // number, plus 1, of the document of expected events; zero: none
}

// HasEvents reports whether any event is known by notification alone.
func (p *State) HasEvents() bool { return p != nil && len(p.events) > 0 }

// IsFull reports whether no more events can be remembered before a pull.
func (p *State) IsFull() bool { return len(p.events) >= maxPushed }

// HasGap reports whether notifications are missing before the newest.
func (p *State) HasGap() bool { return p.Chain != (Interval{}) }

// Reset discards the state, because the mirror is going to be restored to an
// earlier state, and adds to docs the documents that have to be saved.
func (p *State) Reset(set int, docs map[string][]byte) {
	if p == nil || p.IsEmpty() && p.Until.IsZero() && p.Peak == 0 {
		return
	}
	clear(p.events)
	p.Until, p.Chain, p.EventID, p.Unsure = time.Time{}, Interval{}, "", false
	p.RestartCount()
	maps.Copy(docs, p.Save(set))
}

// Contradict pauses the use of notifications, because a document of the Source
// contradicts some of them.
func (p *State) Contradict(changes int64, reason string, now time.Time) {
	p.Contradicted += changes
	p.Paused = now.Add(pushPause).UTC().Truncate(time.Second)
	p.Reason = reason
}

// KeepExpected copies from another state what Expect has recorded there.
func (p *State) KeepExpected(of *State) {
	p.Next, p.Unsure, p.open = of.Next, of.Unsure, of.open
}

// newState returns a state without any notification.
func newState() *State {
	return &State{events: map[Key]Event{}, balance: map[Key]balance{}}
}

// An Interval is a period that notifications cover.
type Interval struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
}

// A Key is a hash of a URI.
type Key [16]byte

// KeyOf returns the key of a resource.
func KeyOf(uri string) (k Key) {
	sum := sha256.Sum256([]byte(uri))
	copy(k[:], sum[:])
	return k
}

// An Event is the newest event of a resource that a notification announced.
type Event struct {
	At          resourcesync.Datetime
	Fingerprint [8]byte               // of the event, see fingerprint
	Gone        bool                  // it was deleted, and the Source confirmed it
	Fresh       bool                  // it was later than everything in the Source's documents when it arrived
	certain     bool                  // the pass over it has ended; otherwise its result is unknown
	proven      bool                  // it changed the mirror
	guard       resourcesync.Datetime // time of the newest event that did: documents of an earlier time lag behind
	seen        resourcesync.Datetime // the newest event of the resource that the Change List has listed since
	left        bool                  // that event was a deletion
	Came        time.Time             // when the notification arrived
}

// Load reads the state of the set with number n.
func Load(ctx context.Context, j journal.Journal, n int) (*State, error) {
	p := newState()
	if _, err := saved.Load(ctx, j, DocName(n), p); err != nil {
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

// IsEmpty reports whether there is nothing to store.
func (p *State) IsEmpty() bool {
	return len(p.events) == 0 && p.Deleted == 0 && p.Chain == (Interval{}) && p.First == p.Next && !p.Unsure && len(p.balance) == 0 && p.Created == 0
}

// An Announced is an event of one resource that is to be remembered.
type Announced struct {
	Key Key
	Event
}

// Expect records the events that a pass is going to apply, and adds to docs the
// documents that have to be saved before: even if the pass is interrupted, a pull
// then knows which changes to compare with the Source's documents.
func (p *State) Expect(set int, announced []Announced, docs map[string][]byte) {
	var b []byte
	for i := range announced {
		n := &announced[i]
		was, known := p.events[n.Key]
		if known && was.At.Compare(n.At) > 0 {
			continue
		}
		if !known && len(p.events) >= 2*maxPushed { // and no pull succeeded
			p.Unsure = true
			continue
		}
		n.seen, n.left, n.guard = was.seen, was.left, was.guard
		p.events[n.Key] = n.Event
		b = appendEvent(b, n.Key, &n.Event)
	}
	p.open = 0
	if p.append(set, b, docs); len(b) > 0 {
		p.open = p.Next
	}
}

// append adds to docs one more document of events, and the state.
func (p *State) append(set int, b []byte, docs map[string][]byte) {
	if len(b) > 0 {
		docs[pushedName(set, p.Next)] = b
		p.Next++
	}
	docs[DocName(set)] = saved.Encode(p)
}

// aheadSlack is how far the time of an event may be ahead of its arrival.
const aheadSlack = time.Second

// isAhead reports whether the time of the event was still in the future when it
// arrived: the state from that time on is unknown.
func (e *Event) isAhead() bool { return e.At.Time().After(e.Came.Add(aheadSlack)) }

// span returns the first instant of the time that d denotes, and the first after
// it: the datetimes of some Sources denote whole seconds, or days.
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

// isBefore reports whether all of the time that a denotes is before t.
func isBefore(a resourcesync.Datetime, t time.Time) bool {
	_, to := span(a)
	return !to.After(t)
}

// FingerprintOf returns the fingerprint of w at t in its stored form.
func FingerprintOf(w *desired.Resource, t resourcesync.Datetime) (p [8]byte) {
	plain := *w
	plain.Nth = 0 // its number within a document does not matter
	copy(p[:], desired.Fingerprint(&plain, t))
	return p
}

// IsKnown reports whether the event w at t is the last one applied to the resource,
// or older (RN-RX-02).
func (p *State) IsKnown(st *saved.Set, w *desired.Resource, t resourcesync.Datetime) bool {
	if t.IsZero() {
		return false
	}
	if was, ok := p.events[KeyOf(w.URI)]; ok && !was.At.IsZero() {
		if from, _ := span(was.guard); !was.guard.IsZero() && isBefore(t, from) {
			return true
		}
		if was.certain && was.At.Compare(t) == 0 && was.Fingerprint == FingerprintOf(w, t) {
			return true
		}
	}
	if saved.Time(t).Equal(st.SeenTime) && slices.Contains(st.Seen, desired.Fingerprint(w, t)) {
		return true // a pull has read it
	}
	return !st.Watermark.IsZero() && !st.Ahead && isBefore(t, st.Watermark)
}

// IsNewer reports whether a notification brought a later state of the resource than
// a document of the time at describes. A document without a time may be old.
func (p *State) IsNewer(uri string, at resourcesync.Datetime) bool {
	if p == nil || len(p.events) == 0 {
		return false
	}
	was, ok := p.events[KeyOf(uri)]
	if !ok || was.guard.IsZero() {
		return false
	}
	return at.IsZero() || at.Compare(was.guard) < 0
}

// Listed records that the Change List contains an event of the resource.
func (p *State) Listed(uri string, at resourcesync.Datetime, gone bool) {
	if p == nil || len(p.events) == 0 {
		return
	}
	k := KeyOf(uri)
	if was, ok := p.events[k]; ok && (was.seen.IsZero() || at.Compare(was.seen) >= 0) {
		was.seen, was.left = at, gone
		p.events[k] = was
	}
}

// Pulled records that everything the Source's documents state was read and applied.
// It returns the number of notified changes that the documents should list by now
// but do not; and how many of these the Change List, which covers their times,
// contradicts: they did not change the mirror. With compared, everything was
// compared with the Source's resources, so that there is nothing to doubt.
func (p *State) Pulled(st *saved.Set, now time.Time, compared bool) (doubtful, contradicted int) {
	watermark, lag := st.Watermark, MaxLag
	if st.Changes == "" {
		lag = MaxListLag
	}
	if compared {
		p.Unsure = false
	}
	for k, e := range p.events {
		listed := !e.seen.IsZero() && (e.seen.Compare(e.At) > 0 || e.seen.Compare(e.At) == 0 && e.left == e.Gone)
		_, seen := span(e.seen)
		listed = listed || !e.Gone && !e.left && !e.seen.IsZero() && seen.After(e.At.Time()) // times are in whole seconds
		passed := isBefore(e.At, watermark)
		switch {
		case listed && !watermark.Before(e.At.Time()), compared && passed:
			delete(p.events, k)
		case passed && e.Fresh && e.certain && !e.proven && !compared && !st.Compared:
			delete(p.events, k)
			contradicted++
		case passed:
			doubtful++
		case now.Sub(e.Came) > lag: // it no longer masks later events
			delete(p.events, k)
			p.Unsure = p.Unsure || !compared
		}
	}
	p.forgetBalance()
	if p.Chain != (Interval{}) && !p.Chain.From.After(watermark) { // the gap is closed
		p.Until, p.Chain = saved.Latest(p.Until, p.Chain.Until), Interval{}
	}
	if p.Unsure && doubtful == 0 {
		doubtful = 1
	}
	return doubtful, contradicted
}

// Save returns the documents of the whole state, which replace the existing ones.
func (p *State) Save(set int) map[string][]byte {
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

// Continues records that the interval between from and until was notified. It
// reports whether there is a gap before it (RN-RX-03) that was not known before.
func (p *State) Continues(watermark time.Time, from, until resourcesync.Datetime, limit time.Time) (gap bool) {
	f, u := saved.Time(from), saved.Time(until)
	if u.After(limit) {
		u = time.Time{} // the time is in the future
	}
	switch {
	case from.IsZero() || f.After(limit):
		return true
	case !f.After(saved.Latest(watermark, p.Until)):
		p.Until = saved.Latest(p.Until, u)
		return false
	case p.Chain != (Interval{}) && !f.After(p.Chain.Until):
		p.Chain.Until = saved.Latest(p.Chain.Until, u)
		return false
	}
	p.Chain = Interval{f, saved.Latest(f, u)}
	return true
}
