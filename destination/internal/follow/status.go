package follow

import (
	"slices"
	"time"

	"lockstep/destination/report"
	"lockstep/websub"
)

// Status returns the state of the Follower without the address of the Source. It is safe for concurrent use.
func (f *Follower) Status() report.FollowStatus {
	subs := f.channels.subscriptions()
	r := f.reg
	r.mu.Lock()
	defer r.mu.Unlock()
	out := report.FollowStatus{Sets: make([]report.SetStatus, 0, len(r.sets)), Synced: r.synced, Error: r.trouble, Hint: r.hint, Unproven: slices.Clone(r.unproven),
		FailingSince: r.unfound, Attempts: r.misses, NextLook: r.lookAt}
	out.Complete = out.Synced && out.Error == "" && len(r.unproven) == 0
	for _, s := range r.sets {
		st := s.current(subs)
		st.Interval = r.interval(s)
		st.Unproven = slices.Clone(st.Unproven)
		st.Complete = st.Complete && st.Error == "" && st.Refused == ""
		out.Complete = out.Complete && st.Complete
		out.Sets = append(out.Sets, st)
	}
	return out
}

// Progress reports whether each set was pulled at least once; and then whether all were in
// step at some time, and whether the last attempts have succeeded. It is called after each
// pull: it copies nothing. It is safe for concurrent use.
func (f *Follower) Progress() (pulled, inStep, works bool) {
	r := f.reg
	r.mu.Lock()
	defer r.mu.Unlock()
	inStep = len(r.sets) > 0 && r.trouble == ""
	works = r.trouble == "" && r.unfound.IsZero() && !r.looked.IsZero() && !r.kept
	for _, s := range r.sets {
		if s.status.Pulls == 0 {
			return false, false, false
		}
		inStep = inStep && !s.status.InStep.IsZero()
		works = works && s.status.FailingSince.IsZero()
	}
	return true, inStep, works
}

// current returns the state of the set.
func (s *set) current(subs []websub.SubscriptionState) report.SetStatus {
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
		st.HubError = s.hubError
	}
	if until, reason := s.pausedUntil, s.pausedBecause; time.Now().Before(until) {
		st.Paused, st.Reason = until, reason
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
