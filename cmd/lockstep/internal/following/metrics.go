package following

import (
	"slices"
	"time"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/destination"
)

// Figures reports to monitors all that is known about the progress.
func (f *Run) Figures(s *admin.Figures) {
	state := f.State()
	reportFollow(s, &state)
	t := f.link.traffic()
	s.Counter("lockstep_destination_requests_total", "Requests sent.", float64(t.requests))
	s.Counter("lockstep_destination_received_bytes_total", "Bytes that came over the network.", float64(t.bytes))
}

// reportFollow reports the totals of all passes, the progress of the current one,
// and how each set is followed.
func reportFollow(s *admin.Figures, state *State) {
	r := &state.Result
	s.Gauge("lockstep_follow_ready", "Whether each set has been in step once.", admin.Truth(state.Ready))
	s.Gauge("lockstep_follow_failing", "Whether the last look at the Source, or at each of its sets, failed.", admin.Truth(isFailing(&r.Follow)))
	s.Counter("lockstep_follow_passes_total", "Passes that did something or failed.", float64(r.Passes))
	s.Counter("lockstep_follow_passes_failed_total", "Passes after which not everything was in step.", float64(r.PassesFailed))
	s.Counter("lockstep_follow_pass_seconds_total", "Time spent in passes.", r.Elapsed)
	reportBy(s, &r.By)
	if r.Kept != nil {
		reportVersions(s, r.Report)
	}
	names := setLabels(&r.Follow)
	for i := range r.BySet {
		if name, ok := names[r.BySet[i].URI]; ok {
			reportSet(s, name, &r.BySet[i])
		}
	}
	for i := range r.Follow.Sets {
		set := &r.Follow.Sets[i]
		reportFollowed(s, names[set.URI], set)
		if p, ok := state.Progress[set.Name]; ok {
			reportProgress(s, names[set.URI], &p)
		}
	}
}

// isFailing reports whether the Source does not answer: the last look at it, or
// at each of its sets, failed.
func isFailing(f *destination.FollowStatus) bool {
	return f.Error != "" || len(f.Sets) > 0 && !slices.ContainsFunc(f.Sets, func(s destination.SetStatus) bool { return s.Error == "" })
}

// setLabels names the sets: by their names, where no two have the same.
func setLabels(f *destination.FollowStatus) map[string]string {
	count := map[string]int{}
	for i := range f.Sets {
		count[f.Sets[i].Name]++
	}
	labels := map[string]string{}
	for i := range f.Sets {
		set := &f.Sets[i]
		if labels[set.URI] = set.Name; set.Name == "" || count[set.Name] > 1 {
			labels[set.URI] = set.URI
		}
	}
	return labels
}

// reportVersions reports which versions the mirror keeps.
func reportVersions(s *admin.Figures, r *destination.Report) {
	s.Gauge("lockstep_destination_versions", "Versions kept of what was replaced or removed.", float64(r.Kept.Versions))
	s.Gauge("lockstep_destination_versions_bytes", "Their length, each by itself; what they take on disk is less.", float64(r.Kept.Bytes))
	s.Gauge("lockstep_destination_versions_since_timestamp_seconds", "How far back the mirror can be what it was.", float64(r.Kept.Since.UnixMicro())/1e6)
	s.Counter("lockstep_destination_versions_not_kept_total", "Versions that could not be kept: their files were damaged or gone.", float64(r.NotKept))
}

// reportBy reports by which methods contents were obtained. It omits contents of
// the past, which a mirror that follows never fetches.
func reportBy(s *admin.Figures, by *destination.By) {
	for _, way := range []struct {
		name string
		n    int64
	}{
		{"request", by.Request}, {"package", by.Package}, {"on-demand", by.OnDemand}, {"patch", by.Patch}, {"harvest", by.Harvest},
		{"mirror", by.Mirror}, {"unchanged", by.Unchanged}, {"adopted", by.Adopted},
	} {
		s.Counter("lockstep_destination_contents_total", "Contents by the way they came.", float64(way.n), "by", way.name)
	}
	s.Counter("lockstep_destination_adopted_by_time_total", "Adopted files that no hash has verified: their length and time are those stated.", float64(by.AdoptedByTime))
}

// reportSet reports the totals of all passes for a set.
func reportSet(s *admin.Figures, name string, r *destination.SetReport) {
	for _, outcome := range []struct {
		name string
		n    int64
	}{
		{"created", r.Created}, {"updated", r.Updated}, {"deleted", r.Deleted},
		{"unchanged", r.Unchanged}, {"failed", r.Failed}, {"refused", r.Refused},
	} {
		s.Counter("lockstep_destination_resources_total", "Resources processed, by result.", float64(outcome.n), "set", name, "outcome", outcome.name)
	}
	s.Counter("lockstep_destination_set_bytes_total", "Bytes that came over the network for a set.", float64(r.Bytes), "set", name)
	s.Counter("lockstep_destination_set_seconds_total", "Time spent in passes of a set.", r.Elapsed, "set", name)
}

// reportProgress reports the progress of the current pass, or how far the last
// one got.
func reportProgress(s *admin.Figures, name string, p *destination.Progress) {
	for _, figure := range []struct {
		name, help string
		n          int64
	}{
		{"resources_done", "Resources dealt with in the current pass.", p.Done},
		{"resources_planned", "Resources to be dealt with in the current pass.", p.Total},
		{"content_bytes_done", "Bytes of content fetched in the current pass.", p.Bytes},
		{"content_bytes_planned", "Bytes of content to be fetched in the current pass, as far as is known.", p.TotalBytes},
		{"applied", "Changes applied in the current pass.", p.Applied},
		{"failed", "Resources that failed in the current pass.", p.Failed},
	} {
		s.Gauge("lockstep_destination_pass_"+figure.name, figure.help, float64(figure.n), "set", name)
	}
}

// reportFollowed reports how a set is followed, and up to which time it is in
// step.
func reportFollowed(s *admin.Figures, name string, set *destination.SetStatus) {
	for _, channel := range []string{destination.ChannelHub, destination.ChannelEvents, destination.ChannelPoll} {
		s.Gauge("lockstep_follow_channel", "The channel by which changes of a set arrive.", admin.Truth(set.Channel == channel), "set", name, "channel", channel)
	}
	s.Gauge("lockstep_follow_set_failing", "Whether the set was not in step after its last pass.", admin.Truth(set.Error != ""), "set", name)
	s.Gauge("lockstep_follow_set_refused", "Whether the set is left as it is, for safety.", admin.Truth(set.Refused != ""), "set", name)
	s.Gauge("lockstep_follow_pending_deletions", "Deletions that were notified and that the Source has not confirmed.", float64(set.Pending), "set", name)
	s.Gauge("lockstep_follow_push_paused", "Whether notifications are not used because the Source's documents contradicted one.", admin.Truth(!set.Paused.IsZero()), "set", name)
	s.Gauge("lockstep_follow_waiting", "Notifications taken and not yet processed.", float64(set.Waiting), "set", name)
	s.Gauge("lockstep_follow_waiting_bytes", "Bytes that these notifications take.", float64(set.Backlog), "set", name)
	s.Gauge("lockstep_follow_waiting_age_seconds", "How long the oldest of these notifications has waited.", ageOf(set.Oldest), "set", name)
	s.Gauge("lockstep_follow_overloaded", "Whether notifications were discarded because there were too many, and the Source's documents are read instead.", admin.Truth(!set.Overload.IsZero()), "set", name)
	s.Gauge("lockstep_follow_failed_attempts", "Looks at the set that failed in a row.", float64(set.Attempts), "set", name)
	s.Gauge("lockstep_follow_interval_seconds", "Between two looks at the set that nothing asked for, at present.", set.Interval.Seconds(), "set", name)
	s.Gauge("lockstep_follow_lag_seconds", "From the newest change applied by a notification, at the Source, to its file here.", set.Lag.Seconds(), "set", name)
	for _, at := range []struct {
		name, help string
		time       time.Time
	}{
		{"synced_until", "On the Source's clock: all changes before are here.", set.Watermark},
		{"last_notification", "When the last notification came.", set.Notified},
		{"last_pull", "When the set was last looked at.", set.Pulled},
		{"next_pull", "When the set is looked at next.", set.NextPull},
		{"last_success", "When the last look at the set that succeeded ended.", set.InStep},
		{"failing_since", "When the first of the looks at the set that failed in a row ended.", set.FailingSince},
		{"waiting_since", "When the oldest notification that waits came.", set.Oldest},
		{"overloaded_since", "When the oldest notification came that was discarded because there were too many.", set.Overload},
		{"push_paused_until", "Until when notifications are not used.", set.Paused},
		{"lease_end", "When the subscription at the hub ends, if it is not renewed.", set.LeaseEnd},
	} {
		if !at.time.IsZero() {
			s.Gauge("lockstep_follow_"+at.name+"_timestamp_seconds", at.help, float64(at.time.UnixMicro())/1e6, "set", name)
		}
	}
	for _, c := range []struct {
		name, help string
		n          int64
	}{
		{"notifications", "Notifications taken.", set.Notifications},
		{"changes_applied", "Changes of notifications that were applied.", set.Applied},
		{"forged", "Deliveries whose signature was wrong or missing.", set.Forged},
		{"gaps", "Notifications that did not continue from what is here.", set.Gaps},
		{"duplicates", "Notifications that brought nothing new.", set.Duplicates},
		{"quarantined", "Notifications that were put aside.", set.Quarantined},
		{"pulls", "Looks at the set.", set.Pulls},
		{"contradicted", "Notified changes that the Source's documents contradict.", set.Contradicted},
		{"discarded", "Notifications that were not used.", set.Discarded},
		{"overloads", "Times that too many notifications waited to be applied one by one.", set.Overloads},
	} {
		s.Counter("lockstep_follow_"+c.name+"_total", c.help, float64(c.n), "set", name)
	}
}

// ageOf is how many seconds ago t was; zero for no time.
func ageOf(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return max(time.Since(t), 0).Seconds()
}
