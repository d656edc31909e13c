// Package status shows operators what a hub does: its figures, topics,
// subscriptions, stored messages and failures, as JSON and as a web page.
//
// [Server.API] serves the JSON, through which programs also manage
// subscriptions, and [Server.Page] the page. Neither shows a callback: its
// address would allow readers to forge deliveries (WS-SEC-07).
package status

import (
	"maps"
	"net/url"
	"slices"
	"time"

	"lockstep/hub/hubstore"
)

// Stats describes the state of a hub, and what it has done since it was
// started. With several hubs on one Store it covers only this one.
type Stats struct {
	Topics        int `json:"topics"`
	Subscriptions int `json:"subscriptions"`
	Idle          int `json:"idle"`     // subscriptions that have all messages
	Queued        int `json:"queued"`   // subscriptions that wait for their turn
	Sending       int `json:"sending"`  // subscriptions with a delivery under way
	Waiting       int `json:"waiting"`  // subscriptions that wait for a retry after failures
	Behind        int `json:"behind"`   // subscriptions that lack messages, for whatever reason
	Requests      int `json:"requests"` // requests that were accepted and wait to be verified

	LagMax int64 `json:"lag_max"`    // the most messages that one subscription lacks
	Kept   int64 `json:"kept_bytes"` // of stored messages

	Accepted       int64 `json:"accepted"` // messages
	AcceptedBytes  int64 `json:"accepted_bytes"`
	Delivered      int64 `json:"delivered"` // messages, each to one subscriber
	DeliveredBytes int64 `json:"delivered_bytes"`
	Failed         int64 `json:"failed"`     // failed attempts
	GivenUp        int64 `json:"given_up"`   // messages that a subscriber did not get in time
	Verified       int64 `json:"verified"`   // requests that callbacks confirmed
	Unverified     int64 `json:"unverified"` // requests that they did not confirm
	Refused        int64 `json:"refused"`    // requests answered with 4xx or 5xx
	Limited        int64 `json:"limited"`    // of them, those beyond a rate limit or quota
	Pings          int64 `json:"pings"`      // topics that were pinged
	Fetched        int64 `json:"fetched"`    // fetched topics that had changed
	Unchanged      int64 `json:"unchanged"`  // fetched topics that had not changed
	Unfetched      int64 `json:"unfetched"`  // topics that could not be fetched
	Ended          int64 `json:"ended"`      // subscriptions that their endpoint ended with 410
	Expired        int64 `json:"expired"`    // subscriptions whose lease expired
	Denied         int64 `json:"denied"`     // subscriptions that the hub ended

	Latency Histogram `json:"-"` // of successful deliveries
}

// A Histogram is a distribution of durations.
type Histogram struct {
	Count int64
	Sum   time.Duration
	UpTo  map[time.Duration]int64 // number of durations not above the bound
}

// Quantile returns an upper bound of the quantile q of the durations, in
// seconds.
func (h Histogram) Quantile(q float64) float64 {
	bounds := slices.Sorted(maps.Keys(h.UpTo))
	for _, bound := range bounds {
		if float64(h.UpTo[bound]) >= q*float64(h.Count) {
			return bound.Seconds()
		}
	}
	if len(bounds) == 0 {
		return 0
	}
	return bounds[len(bounds)-1].Seconds()
}

// A Topic describes a topic.
type Topic struct {
	URL           string `json:"url"`
	First         int64  `json:"first"` // number of the oldest stored message; last + 1 if none is stored
	Last          int64  `json:"last"`  // number of the newest message ever; 0: there was none
	Bytes         int64  `json:"bytes"` // of the stored messages
	Subscriptions int    `json:"subscriptions"`
	Behind        int    `json:"behind"`  // subscriptions that lack messages
	LagMax        int64  `json:"lag_max"` // the most messages one of them lacks

	// Only for topics published by pings:
	Fetched       time.Time `json:"fetched,omitzero"`         // the last successful fetch
	FetchError    string    `json:"fetch_error,omitempty"`    // of the last attempt, if it failed
	FetchAttempts int       `json:"fetch_attempts,omitempty"` // failed attempts
	NextFetch     time.Time `json:"next_fetch,omitzero"`      // zero with an error: given up until the next ping
}

// A Subscription describes a subscription. It shows only the scheme and
// host of the callback: the full address would allow its reader to forge
// deliveries (WS-SEC-07).
type Subscription struct {
	Key          hubstore.Key `json:"key"`
	Topic        string       `json:"topic"`
	Callback     string       `json:"callback"` // scheme and host
	State        string       `json:"state"`    // "idle", "queued", "sending", "waiting"
	Signed       bool         `json:"signed"`
	Created      time.Time    `json:"created"`
	Expires      time.Time    `json:"expires"`                     // of the lease
	Cursor       int64        `json:"cursor"`                      // number of the last message that was delivered or given up
	Lag          int64        `json:"lag"`                         // messages it lacks
	Oldest       time.Time    `json:"oldest_undelivered,omitzero"` // when the first of them was accepted
	Attempts     int          `json:"attempts"`                    // failed attempts to deliver it
	Next         time.Time    `json:"next_try,omitzero"`
	FailingSince time.Time    `json:"failing_since,omitzero"`
	LastError    string       `json:"last_error,omitempty"`
	LastTaken    time.Time    `json:"last_taken,omitzero"` // when a message was last delivered
	Taken        int64        `json:"taken"`
	GivenUp      int64        `json:"given_up"`
}

// A Message describes a stored message.
type Message struct {
	Seq         int64     `json:"seq"`
	ID          string    `json:"id"` // as in deliveries
	At          time.Time `json:"at"` // when it was accepted
	ContentType string    `json:"content_type,omitempty"`
	Bytes       int       `json:"bytes"`
	Whole       bool      `json:"whole"` // a newer message of its kind supersedes it
}

// A FailedVerification describes a request that its callback has not confirmed. It
// shows only the scheme and host of the callback (WS-SEC-07) and at most the
// status of its answer: the rest is for the callback's operator.
type FailedVerification struct {
	Key      hubstore.Key `json:"key"`
	Mode     string       `json:"mode"`
	Topic    string       `json:"topic"`
	Callback string       `json:"callback"` // scheme and host
	At       time.Time    `json:"at"`       // of the last attempt
	Attempts int          `json:"attempts"`
	Reason   string       `json:"reason"`
	Next     time.Time    `json:"next_try,omitzero"` // zero: given up
}

// Origin returns scheme and host of a callback.
func Origin(callback string) string {
	u, err := url.Parse(callback)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}
