package follow

import (
	"context"
	"fmt"
	"time"

	"lockstep/destination/internal/inbox"
	"lockstep/destination/internal/push"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/wording"
	"lockstep/destination/journal"
)

// docOverload, followed by the key of a set's URI, is the name of the document with
// the set's Overload.
const docOverload = "overload/"

// Limits limit the backlog of a set: the notifications that are not yet applied.
// When one is exceeded, the whole backlog is discarded, except for the messages
// being applied, and the set is pulled: by its Change List, which names each
// resource that changed, or completely if the list does not reach back far enough.
type Limits struct {
	Messages int           // notifications
	Bytes    int64         // of the notifications, see [inbox.Message.Weight]
	Age      time.Duration // time since the oldest arrived, or since the set was last pulled; applies if more wait than one pass processes
}

var defaultLimits = Limits{Messages: 10_000, Bytes: 16 << 20, Age: 10 * time.Minute}

// An Overload begins when the backlog of a set is discarded, and ends when a pull
// of the set that began afterwards has succeeded. The Source's documents may lag
// behind its notifications: the set is polled as often as one without notifications
// until its documents reach the time at which messages were last discarded, or for
// [push.MaxLag].
type Overload struct {
	Since    time.Time `json:"since"`    // when the oldest discarded notification arrived
	Last     time.Time `json:"last"`     // when notifications were last discarded
	Messages int64     `json:"messages"` // number of discarded notifications
	Over     bool      `json:"over,omitempty"`

	warned bool
}

// Warning returns a warning that the documents of a set, which has a Change List or
// not, are read in place of the discarded notifications.
func (o *Overload) Warning(set string, hasChanges bool) string {
	instead := "the Change List is"
	if !hasChanges {
		instead = "all of the set is"
	}
	return fmt.Sprintf("set %s: %s waiting since %s are more than can be applied one by one; %s read instead",
		set, wording.Plural(o.Messages, "notification"), o.Since.UTC().Format("15:04:05Z"), instead)
}

func overloadName(uri string) string {
	key := push.KeyOf(uri)
	return fmt.Sprintf("%s%x", docOverload, key[:])
}

// loadOverloads reads the overloads that an earlier run has left. One that cannot
// be read is ignored: each set is pulled in any case when a run begins.
func loadOverloads(ctx context.Context, j journal.Journal, sets []FoundSet) map[string]*Overload {
	out := map[string]*Overload{}
	for i := range sets {
		o := &Overload{warned: true}
		if ok, err := saved.Load(ctx, j, overloadName(sets[i].URI), o); ok && err == nil {
			o.Last = saved.Past(o.Last, time.Now())
			out[sets[i].URI] = o
		}
	}
	return out
}

// isOver reports whether the backlog of the set exceeds a limit.
func (r *registry) isOver(s *set, now time.Time) bool {
	waiting := len(s.queue) - s.busy
	if waiting <= 0 {
		return false
	}
	if waiting > r.limits.Messages || s.queued > r.limits.Bytes {
		return true
	}
	return s.pulled && waiting > passMessages && now.Sub(saved.Latest(s.queue[s.busy].At, s.last)) > r.limits.Age
}

// limitBacklog discards the backlog of a set if it exceeds a limit.
func (r *registry) limitBacklog(s *set, now time.Time) {
	if r.isOver(s, now) {
		r.discardBacklog(s, now)
	}
}

// discardBacklog requests a pull of the set in place of its backlog. The Journal
// records that in the transaction that removes the messages from the inbox: after a
// crash there is one or the other.
func (r *registry) discardBacklog(s *set, now time.Time) {
	ms := s.queue[s.busy:]
	if len(ms) == 0 {
		return
	}
	if !s.isOverloaded() {
		s.overload = &Overload{Since: ms[0].At}
		s.status.Overloads++
	}
	o := s.overload
	o.Last = now
	for _, m := range ms {
		if !m.Hello {
			o.Messages++
		}
		s.queued -= m.Weight()
		s.processedEvent(m) // the stream need not send it again
	}
	r.discard(s, map[string][]byte{overloadName(s.uri): saved.Encode(o)}, ms...)
	s.queue = append([]*inbox.Message(nil), s.queue[:s.busy]...) // a copy, to release the long array
	r.ask(s, now)
	if s.pulled { // a set that takes long to read must not wait for long
		if latest := saved.Latest(now, s.last.Add(r.opts.Poll)); latest.Before(s.due) {
			s.due = latest
		}
	}
}

// makeRoom discards the longest backlog when the inbox is full. It reports whether
// there was one. It locks mu.
func (r *registry) makeRoom() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	var longest *set
	for _, s := range r.sets {
		if len(s.queue) > s.busy && (longest == nil || s.queued > longest.queued) {
			longest = s
		}
	}
	if longest == nil {
		return false
	}
	r.discardBacklog(longest, time.Now())
	return true
}

// unreported returns the overload of a set once, and nil afterwards or if there is
// none. It locks mu.
func (r *registry) unreported(s *set) *Overload {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.overload == nil || s.overload.warned {
		return nil
	}
	s.overload.warned = true
	o := *s.overload
	return &o
}

// endOverload records that a pull of the set, which began at start, succeeded at
// now and read the Source's state at the watermark.
func (r *registry) endOverload(s *set, start, now time.Time) {
	o := s.overload
	if o == nil || !o.Last.Before(start) {
		return
	}
	o.Over = true
	doc := saved.Encode(o)
	if !s.status.Watermark.Before(o.Last) || now.Sub(o.Last) > push.MaxLag {
		s.overload, doc = nil, nil
	}
	r.journal.Later(map[string][]byte{overloadName(s.uri): doc})
}
