package destination

import (
	"context"
	"fmt"
	"time"

	"lockstep/destination/internal/inbox"
	"lockstep/destination/internal/push"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/wording"
)

// docOverload and the key of a set's URI: an overload, from when a backlog is
// discarded until the Source's documents were read in its place.
const docOverload = "overload/"

// The backlog of a set is what was notified and is not yet applied. Beyond one of
// these limits all of it is discarded, but for what is being applied, and the set
// is read: its Change List, which names each resource that changed, or where that
// does not reach back all of it.
const (
	maxBacklog      = 10_000           // notifications
	maxBacklogBytes = 16 << 20         // that they take, see message.weight
	maxBacklogAge   = 10 * time.Minute // that the oldest has waited since it came, or since the set was last read; if more wait than one pass applies
)

// backlogLimits are the limits of a Follower.
type backlogLimits struct {
	messages int
	bytes    int64
	age      time.Duration
}

// An overload begins when the backlog of a set is discarded, and ends when a
// reading of the set that began after that has succeeded. The Source's
// documents may lag behind its notifications: the set is polled as often as one
// without notifications until its documents reach the time at which something
// was last discarded, or for MaxLag.
type overload struct {
	Since    time.Time `json:"since"`    // when the oldest notification that was discarded came
	Last     time.Time `json:"last"`     // when something was last discarded
	Messages int64     `json:"messages"` // that were discarded
	Over     bool      `json:"over,omitempty"`

	warned bool
}

func overloadName(uri string) string {
	key := push.KeyOf(uri)
	return fmt.Sprintf("%s%x", docOverload, key[:])
}

// loadOverloads reads which backlogs of sets an earlier run has discarded, and
// not read the documents since. What cannot be read is as good as none: each set
// is read anyway when a run begins.
func (f *Follower) loadOverloads(ctx context.Context, sets []*setState) map[string]*overload {
	out := map[string]*overload{}
	for _, st := range sets {
		o := &overload{warned: true}
		if ok, err := saved.Load(ctx, f.journal, overloadName(st.URI), o); ok && err == nil {
			o.Last = saved.Past(o.Last, time.Now())
			out[st.URI] = o
		}
	}
	return out
}

// isOver reports whether the backlog of the set is beyond a limit. The caller
// holds mu.
func (f *Follower) isOver(s *followed, now time.Time) bool {
	waiting := len(s.queue) - s.busy
	if waiting <= 0 {
		return false
	}
	if waiting > f.limits.messages || s.queued > f.limits.bytes {
		return true
	}
	return s.pulled && waiting > passMessages && now.Sub(saved.Latest(s.queue[s.busy].At, s.last)) > f.limits.age
}

// limitBacklog discards the backlog of a set if it is beyond a limit. The caller
// holds mu.
func (f *Follower) limitBacklog(s *followed, now time.Time) {
	if f.isOver(s, now) {
		f.discardBacklog(s, now)
	}
}

// discardBacklog has the set be read in place of its backlog. In the journal that
// is noted in the transaction that takes the messages out of the inbox: after a
// crash there is one or the other. The caller holds mu.
func (f *Follower) discardBacklog(s *followed, now time.Time) {
	ms := s.queue[s.busy:]
	if len(ms) == 0 {
		return
	}
	if s.overload == nil || s.overload.Over {
		s.overload = &overload{Since: ms[0].At}
		s.status.Overloads++
	}
	o := s.overload
	o.Last = now
	for _, m := range ms {
		if !m.Hello {
			o.Messages++
		}
		s.queued -= m.Weight()
		if m.EventID != "" { // the stream need not bring it again
			s.resume.stream, s.resume.event = m.Stream, m.EventID
		}
	}
	f.discardNoting(s, ms, map[string][]byte{overloadName(s.uri): saved.Encode(o)})
	s.queue = append([]*inbox.Message(nil), s.queue[:s.busy]...) // and not the array, which is long
	f.ask(s, now)
	if s.pulled { // a set that takes long to be read must not wait for long
		if latest := saved.Latest(now, s.last.Add(f.opts.Poll)); latest.Before(s.due) {
			s.due = latest
		}
	}
}

// makeRoom discards the longest backlog there is, when the inbox is full. It
// reports whether there was one.
func (f *Follower) makeRoom() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	var longest *followed
	for _, s := range f.sets {
		if len(s.queue) > s.busy && (longest == nil || s.queued > longest.queued) {
			longest = s
		}
	}
	if longest == nil {
		return false
	}
	f.discardBacklog(longest, time.Now())
	return true
}

// warnOfOverload warns, once, that a set is read in place of its backlog.
func (f *Follower) warnOfOverload(ses *session, s *followed, st *setState) {
	f.mu.Lock()
	o := overload{warned: true}
	if s.overload != nil {
		o = *s.overload
		s.overload.warned = true
	}
	f.mu.Unlock()
	if o.warned {
		return
	}
	instead := "the Change List is"
	if st.Changes == "" {
		instead = "all of the set is"
	}
	ses.warn(st.URI, fmt.Sprintf("set %s: %s waiting since %s are more than can be applied one by one; %s read instead",
		s.name, wording.Plural(o.Messages, "notification"), o.Since.Local().Format("15:04:05"), instead))
}

// endOverload records that a reading of the set, which began at start,
// succeeded at now, and is of the Source's state at watermark. The caller holds
// mu.
func (f *Follower) endOverload(s *followed, start, now, watermark time.Time) {
	o := s.overload
	if o == nil || !o.Last.Before(start) {
		return
	}
	o.Over = true
	doc := saved.Encode(o)
	if !watermark.Before(o.Last) || now.Sub(o.Last) > push.MaxLag {
		s.overload, doc = nil, nil
	}
	f.journal.Later(map[string][]byte{overloadName(s.uri): doc})
}
