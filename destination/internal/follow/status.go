package follow

import (
	"slices"
	"time"

	"lockstep/destination/report"
	"lockstep/websub"
)

// Status is the state of a Follower.
type Status struct {
	Sets     []SetStatus
	Synced   bool              // all sets were in step since Run began
	Complete bool              // Synced, and every set and the last look are complete
	Unproven []report.Unproven // reasons besides those of the sets
	Error    string            // why the last look at the Source failed
}

// SetStatus is the state of one set.
type SetStatus struct {
	URI, Name           string
	Channel, Topic, Hub string
	LeaseEnd            time.Time
	Complete            bool
	Unproven            []report.Unproven
	Watermark           time.Time
	Notified            time.Time // when the last notification arrived
	Pulled, NextPull    time.Time
	Lag                 time.Duration // between the last change applied by a notification, on the Source's clock, and its file in the mirror
	Waiting             int           // notifications received and not yet processed
	Backlog             int64         // size of those in bytes
	Oldest              time.Time     // when the oldest of those arrived
	Overload            time.Time     // when the oldest discarded notification arrived; zero: no overload
	Error               string
	Refused             string // why the set is left unchanged, for safety
	Pending             int64  // notified deletions that the Source has not confirmed
	Paused              time.Time
	PauseReason         string
	HubError            string // why no hub that the Source names has a working subscription
	Counters
}

// Counters count events since the Follower was created.
type Counters struct {
	Notifications int64 // received
	Applied       int64 // changes of notifications that were applied
	Forged        int64 // deliveries whose signature was wrong or missing
	Gaps          int64 // notifications that do not continue from the state of the mirror
	Duplicates    int64 // notifications without a new change
	Quarantined   int64 // notifications in quarantine
	Pulls         int64 // pulls of the set
	Contradicted  int64 // notified changes that the Source's documents contradict
	Discarded     int64 // notifications that were not used because push is paused or there were too many
	Overloads     int64 // how often there were too many
}

// Status returns the state of the Follower. It is safe for concurrent use.
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
