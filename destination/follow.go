package destination

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"lockstep/destination/internal/follow"
	"lockstep/destination/internal/writebehind"
	"lockstep/discover"
	"lockstep/internal/fetch"
)

// The channels by which a Follower learns of changes of a set, best first.
const (
	ChannelHub    = "hub"    // a WebSub hub calls us
	ChannelEvents = "events" // the Source keeps a stream of events open
	ChannelPoll   = "poll"   // none: the Source's documents are looked at
)

const (
	// DefaultPoll is how often a Source that sends no notifications is polled.
	DefaultPoll = time.Minute
	// DefaultCheck is how often one that does is looked at all the same
	// (RN-RX-04).
	DefaultCheck = time.Hour
	// DefaultPause is the first wait after a failure.
	DefaultPause = time.Second
)

// FollowOptions configures a [Follower]. The zero value is ready to use.
type FollowOptions struct {
	// Poll is how long to wait between looks at a set without notifications;
	// default DefaultPoll.
	Poll time.Duration

	// Check is how long to wait between looks at a set with notifications:
	// notifications alone are never trusted to be complete. Default
	// DefaultCheck, or Poll if that is longer.
	Check time.Duration

	// Callback is the URL by which others reach [Follower.Handler], with any
	// path; "" if they cannot. Hubs are subscribed to only if there is one.
	Callback string

	// Channel is the only channel to use in addition to polling: ChannelHub,
	// ChannelEvents, or ChannelPoll for none. Default: the best there is.
	Channel string

	// Lease is the time to ask hubs for; default: they decide.
	Lease time.Duration

	// RefuseSHA1 says to take deliveries signed with HMAC-SHA1 for forged
	// (WS-X-08).
	RefuseSHA1 bool

	// OnSync, if not nil, is called with the result of each pass that did
	// something or failed: a look at the Source, or notifications that were
	// applied. It is never called concurrently.
	OnSync func(Report, error)

	// Pause is the first wait after something failed, from which waits grow,
	// and the least there is between looks at a set that something asked for;
	// default DefaultPause.
	Pause time.Duration
}

// A Follower keeps a mirror in step with a Source for as long as it runs: by
// notifications where they come, and by looking in any case. See
// [Destination.Follow].
type Follower struct {
	address  string
	follower *follow.Follower
}

// FollowStatus is the state of a [Follower].
type FollowStatus struct {
	Source   string      `json:"source"`
	Sets     []SetStatus `json:"sets"`
	Synced   bool        `json:"synced"`             // all sets were in step since Run began
	Complete bool        `json:"complete"`           // they are, and all of them are complete
	Unproven []Unproven  `json:"unproven,omitempty"` // why not, besides what the sets say
	Error    string      `json:"error,omitempty"`    // why the last look at the Source failed
}

// SetStatus is the state of one set of a [Follower].
type SetStatus struct {
	URI       string        `json:"uri"`
	Name      string        `json:"name"`
	Channel   string        `json:"channel"`         // ChannelHub, ChannelEvents or ChannelPoll
	Topic     string        `json:"topic,omitempty"` // URI of the channel
	Hub       string        `json:"hub,omitempty"`   // that is subscribed to
	LeaseEnd  time.Time     `json:"lease_end,omitzero"`
	Complete  bool          `json:"complete"`                   // it was in step when it was last looked at, and its documents show that nothing is missing
	Unproven  []Unproven    `json:"unproven,omitempty"`         // why it is not complete
	Watermark time.Time     `json:"watermark,omitzero"`         // on the Source's clock: all changes before are here
	Notified  time.Time     `json:"last_notification,omitzero"` // when the last notification came
	Pulled    time.Time     `json:"last_pull,omitzero"`         // when the set was last looked at
	NextPull  time.Time     `json:"next_pull,omitzero"`
	Lag       time.Duration `json:"lag_ns"`                    // from the last change applied by a notification, at the Source, to its file here
	Waiting   int           `json:"waiting"`                   // notifications taken and not yet processed
	Backlog   int64         `json:"waiting_bytes"`             // that they take
	Oldest    time.Time     `json:"waiting_since,omitzero"`    // when the oldest of them came
	Overload  time.Time     `json:"overloaded_since,omitzero"` // more came than could be applied: when the oldest that was discarded came; the Source's documents are read instead
	Error     string        `json:"error,omitempty"`
	Refused   string        `json:"refused,omitempty"`          // why the set is left as it is, for safety; it is tried again
	Pending   int64         `json:"pending_deletions"`          // that were notified, and that the Source has not confirmed
	Paused    time.Time     `json:"push_paused_until,omitzero"` // until then notifications are not used, and the set is polled
	Reason    string        `json:"push_paused_because,omitempty"`
	HubError  string        `json:"hub_error,omitempty"` // why no hub that the Source names calls us
	FollowCounters
}

// FollowCounters count what happened since the Follower was made.
type FollowCounters struct {
	Notifications int64 `json:"notifications"` // taken
	Applied       int64 `json:"applied"`       // changes of notifications that were applied
	Forged        int64 `json:"forged"`        // deliveries whose signature was wrong or missing
	Gaps          int64 `json:"gaps"`          // notifications that did not continue from what is here
	Duplicates    int64 `json:"duplicates"`    // notifications that brought nothing that was not known
	Quarantined   int64 `json:"quarantined"`   // notifications that were put aside
	Pulls         int64 `json:"pulls"`         // looks at the set
	Contradicted  int64 `json:"contradicted"`  // notified changes that the Source's documents contradict
	Discarded     int64 `json:"discarded"`     // notifications that were not used: push is paused, or there were too many
	Overloads     int64 `json:"overloads"`     // how often there were too many: the Source's documents were read instead
}

// Follow returns a Follower of the Source at address, which may be anything
// [Destination.Sync] takes. It starts nothing: see [Follower.Run]. It fails, in
// words a user can act on, if the options cannot be used. While the Follower
// runs nothing else may be done with the Destination.
func (d *Destination) Follow(address string, o FollowOptions) (*Follower, error) {
	if err := discover.Check(address); err != nil {
		return nil, err
	}
	switch o.Channel {
	case "", ChannelHub, ChannelEvents, ChannelPoll:
	default:
		return nil, fmt.Errorf("channel %q: want %s, %s or %s", o.Channel, ChannelHub, ChannelEvents, ChannelPoll)
	}
	if d.opts.DryRun {
		return nil, errors.New("nothing can be followed by a dry run")
	}
	if o.Channel == ChannelHub && o.Callback == "" {
		return nil, errors.New("without a callback no hub can be subscribed to")
	}
	o.setDefaults()
	journal := writebehind.New(d.journal)
	own, err := New(d.store, journal, d.client, d.opts) // with options that change while it runs
	if err != nil {
		return nil, err
	}
	own.doubtEvery, own.follows = o.Check, true
	m := &followedMirror{d: own, address: address, opts: &o, journal: journal}
	f := &Follower{address: address}
	f.follower, err = follow.New(m, follow.Options{
		Poll: o.Poll, Check: o.Check, Pause: o.Pause, Callback: o.Callback, Channel: o.Channel, Lease: o.Lease, RefuseSHA1: o.RefuseSHA1,
		Client: d.client, Log: d.log, Journal: journal, Allow: own.allowStream,
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// allowStream reports why a stream of events of a set must not be read, if so: its
// events speak for the Source.
func (d *Destination) allowStream(set, uri string) error {
	doc, err := url.Parse(set)
	if err != nil {
		return err
	}
	if reason := d.selects.Refuse(uri, doc); reason != "" {
		return fmt.Errorf("refuse %s: %s", fetch.Printable(uri), reason)
	}
	return nil
}

func (o *FollowOptions) setDefaults() {
	if o.Poll <= 0 {
		o.Poll = DefaultPoll
	}
	if o.Check <= 0 {
		o.Check = max(DefaultCheck, o.Poll)
	}
	if o.Pause <= 0 {
		o.Pause = DefaultPause
	}
}

// Handler serves what hubs call: mount it where the path of Callback, and all
// below it, arrives. It can be used before Run, and answers 503 until then.
func (f *Follower) Handler() http.Handler { return f.follower.Handler() }

// Run brings the mirror into step and keeps it there until ctx ends, and then
// returns nil soon: what was finished is kept. What fails is tried again, with
// growing pauses. Nothing a Source or a hub sends ends it: a set that is refused
// for safety is left as it is, reported and tried again, while the others go on.
// At its start it returns an [ErrRefused] when the mirror is one of another
// Source, and a [SetError] when the Source does not offer a set that is to be
// followed; at any time what keeps the mirror itself from being written. It must
// not be called twice.
func (f *Follower) Run(ctx context.Context) error { return f.follower.Run(ctx) }

// Status returns the state of the Follower. It may be called at any time.
func (f *Follower) Status() FollowStatus { return statusOf(f.address, f.follower.Status()) }
