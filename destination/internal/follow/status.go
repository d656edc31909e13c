package follow

import (
	"slices"
	"time"

	"lockstep/websub"
)

// Status is the state of a Follower.
type Status struct {
	Sets     []SetStatus
	Synced   bool       // all sets were in step since Run began
	Complete bool       // they are, and all of them are complete
	Unproven []Unproven // why not, besides what the sets say
	Error    string     // why the last look at the Source failed
}

// SetStatus is the state of one set.
type SetStatus struct {
	URI, Name           string
	Channel, Topic, Hub string
	LeaseEnd            time.Time
	Complete            bool
	Unproven            []Unproven
	Watermark           time.Time
	Notified            time.Time // when the last notification arrived
	Pulled, NextPull    time.Time
	Lag                 time.Duration // from the last change applied by a notification, at the Source, to its file here
	Waiting             int           // notifications received and not yet processed
	Backlog             int64         // bytes that they take
	Oldest              time.Time     // when the oldest of them arrived
	Overload            time.Time     // when the oldest that was discarded arrived
	Error               string
	Refused             string // why the set is left as it is, for safety
	Pending             int64  // deletions that were notified, and that the Source has not confirmed
	Paused              time.Time
	PauseReason         string
	HubError            string // why no hub that the Source names calls us
	Counters
}

// Counters count what happened since the Follower was made.
type Counters struct {
	Notifications int64 // received
	Applied       int64 // changes of notifications that were applied
	Forged        int64 // deliveries whose signature was wrong or missing
	Gaps          int64 // notifications that did not continue from what is here
	Duplicates    int64 // notifications that brought nothing that was not known
	Quarantined   int64 // notifications that were put aside
	Pulls         int64 // looks at the set
	Contradicted  int64 // notified changes that the Source's documents contradict
	Discarded     int64 // notifications that were not used: push is paused, or there were too many
	Overloads     int64 // how often there were too many
}

// Status returns the state of the Follower. It may be called at any time.
func (f *Follower) Status() Status {
	subs := f.channels.subscriptions()
	r := f.reg
	r.mu.Lock()
	defer r.mu.Unlock()
	out := Status{Sets: make([]SetStatus, 0, len(r.sets)), Synced: r.synced, Error: r.trouble, Unproven: r.unproven}
	out.Complete = out.Synced && out.Error == "" && len(r.unproven) == 0
	for _, s := range r.sets {
		st := s.current(subs)
		st.Complete = st.Complete && st.Error == "" && st.Refused == ""
		out.Complete = out.Complete && st.Complete
		out.Sets = append(out.Sets, st)
	}
	return out
}

// current returns the state of the set.
func (s *set) current(subs []websub.SubscriptionState) SetStatus {
	st := s.status
	st.URI, st.Name, st.Channel, st.Waiting, st.NextPull = s.uri, s.name, ByPolling, len(s.queue), s.due
	st.Topic, st.Backlog = s.channel.topic, s.queued
	if len(s.queue) > 0 {
		st.Oldest = s.queue[0].At
	}
	if s.isOverloaded() {
		st.Overload = s.overload.Since
	}
	if !s.hub {
		st.HubError = s.spurned
	}
	if until, reason := s.pausedUntil, s.pausedBecause; time.Now().Before(until) {
		st.Paused, st.PauseReason = until, reason
		return st
	}
	if s.stream {
		st.Channel, st.Topic = ByEvents, s.channel.events
	}
	i := slices.IndexFunc(subs, func(o websub.SubscriptionState) bool { return o.ID == s.uri })
	if s.hub && i >= 0 {
		st.Channel, st.Topic, st.Hub, st.LeaseEnd = ByHub, subs[i].Topic, subs[i].Hub, subs[i].Expires
	}
	if st.Error == "" && s.trouble != "" {
		st.Error = s.trouble
	}
	return st
}
