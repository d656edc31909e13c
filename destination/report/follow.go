package report

import "time"

// FollowStatus is the state of a Follower.
type FollowStatus struct {
	Source   string      `json:"source"`
	Sets     []SetStatus `json:"sets"`
	Synced   bool        `json:"synced"`             // each set was in step once since Run began, apart from single resources that failed
	Complete bool        `json:"complete"`           // Synced, and every set and the last look at the Source are complete
	Unproven []Unproven  `json:"unproven,omitempty"` // reasons besides those of the sets
	Error    string      `json:"error,omitempty"`    // why the last look at the Source failed
	Hint     string      `json:"hint,omitempty"`     // what to do about it

	FailingSince time.Time `json:"failing_since,omitzero"`    // when the first of the failed looks ended
	Attempts     int       `json:"failed_attempts,omitempty"` // looks in a row that failed
	NextLook     time.Time `json:"next_look,omitzero"`        // when the Source's sets are looked up again, at the latest
}

// SetStatus is the state of one set of a Follower.
type SetStatus struct {
	URI          string        `json:"uri"`
	Name         string        `json:"name"`
	Channel      string        `json:"channel"`         // "hub", "events" or "poll"
	Topic        string        `json:"topic,omitempty"` // URI of the channel
	Hub          string        `json:"hub,omitempty"`   // of the subscription
	LeaseEnd     time.Time     `json:"lease_end,omitzero"`
	Complete     bool          `json:"complete"`                   // it was in step after the last pull, and its documents show that nothing is missing
	Unproven     []Unproven    `json:"unproven,omitempty"`         // why it is not complete
	Watermark    time.Time     `json:"watermark,omitzero"`         // on the Source's clock: all earlier changes are applied
	Notified     time.Time     `json:"last_notification,omitzero"` // when the last notification arrived
	Pulled       time.Time     `json:"last_pull,omitzero"`         // when the set was last pulled
	NextPull     time.Time     `json:"next_pull,omitzero"`
	Interval     time.Duration `json:"interval_ns"`               // between pulls that are not requested, at present
	InStep       time.Time     `json:"last_success,omitzero"`     // when the last pull that succeeded ended
	FailingSince time.Time     `json:"failing_since,omitzero"`    // when the first of the failed pulls ended
	Attempts     int           `json:"failed_attempts,omitempty"` // pulls in a row that failed
	Lag          time.Duration `json:"lag_ns"`                    // between the last change applied by a notification, on the Source's clock, and its file in the mirror
	Waiting      int           `json:"waiting"`                   // notifications received and not yet processed
	Backlog      int64         `json:"waiting_bytes"`             // their size in bytes
	Oldest       time.Time     `json:"waiting_since,omitzero"`    // when the oldest of them arrived
	Overload     time.Time     `json:"overloaded_since,omitzero"` // when the oldest discarded notification arrived; the Source's documents are read instead; zero: no overload
	Error        string        `json:"error,omitempty"`
	Hint         string        `json:"hint,omitempty"`             // what to do about it
	Refused      string        `json:"refused,omitempty"`          // why the set is left unchanged, for safety; it is tried again
	Pending      int64         `json:"pending_deletions"`          // notified deletions that the Source has not confirmed
	Paused       time.Time     `json:"push_paused_until,omitzero"` // notifications are not used until then, and the set is polled
	Reason       string        `json:"push_paused_because,omitempty"`
	HubError     string        `json:"hub_error,omitempty"` // why no hub that the Source names has a working subscription
	FollowCounters
}

// FollowCounters count events since the Follower was created.
type FollowCounters struct {
	Notifications int64 `json:"notifications"` // received
	Applied       int64 `json:"applied"`       // changes of notifications that were applied
	Forged        int64 `json:"forged"`        // deliveries whose signature was wrong or missing
	Gaps          int64 `json:"gaps"`          // notifications that do not continue from the state of the mirror
	Duplicates    int64 `json:"duplicates"`    // notifications without a new change
	Quarantined   int64 `json:"quarantined"`   // notifications that were put aside
	Pulls         int64 `json:"pulls"`         // pulls of the set
	Contradicted  int64 `json:"contradicted"`  // notified changes that the Source's documents contradict
	Discarded     int64 `json:"discarded"`     // notifications that were not used because push is paused or there were too many
	Overloads     int64 `json:"overloads"`     // how often there were too many: the Source's documents were read instead
}

// An Unsubscription is the result of ending one subscription.
type Unsubscription struct {
	Set     string    `json:"set"` // URI of the set
	Topic   string    `json:"topic"`
	Hub     string    `json:"hub"`
	Ended   bool      `json:"ended"`              // the hub has verified the request, or the lease had ended
	Expires time.Time `json:"lease_end,omitzero"` // of a subscription that could not be ended: the hub drops it then
	Error   string    `json:"error,omitempty"`
}
