package destination

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/destination/internal/inbox"
	"lockstep/destination/internal/writebehind"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/websub"
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
	d       *Destination
	address string
	opts    FollowOptions
	journal *writebehind.Journal
	inbox   *inbox.Box
	sub     *websub.Subscriber // nil: no hub can call us
	running atomic.Bool
	ready   atomic.Bool   // messages are taken
	wake    chan struct{} // holds a token when there may be something to do
	wiring  chan struct{} // holds one for each channel that is looked up
	started sync.WaitGroup
	turnFor time.Duration // see the constant
	limits  backlogLimits // see maxBacklog

	session *session // the worker's: nil: to be opened

	localAt   time.Time     // the worker's: when the mirror's own files were last looked at
	localTook time.Duration // and how long it took

	mu       sync.Mutex // guards what follows
	sets     []*followed
	early    map[string][]*inbox.Message // messages of sets that were not found yet
	turn     int                         // whose turn it is
	lookAt   time.Time                   // when to look at the Source as a whole
	looked   time.Time                   // when that was last done
	pause    time.Duration               // before it is tried again
	streams  int                         // of events
	synced   bool
	unproven []Unproven // of no single set, when the Source was last looked at
	trouble  string
	unread   bool      // the last look found sets that could not be read
	failing  time.Time // since when nothing can be written here
	fails    int       // how often that was tried
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
	own, err := New(d.store, journal, d.client, d.opts) // with options that change as it goes on
	if err != nil {
		return nil, err
	}
	own.doubtEvery = o.Check
	f := &Follower{d: own, address: address, opts: o, journal: journal, inbox: inbox.New(journal),
		wake: make(chan struct{}, 1), wiring: make(chan struct{}, wires), early: map[string][]*inbox.Message{}, turnFor: turnFor,
		limits: backlogLimits{messages: maxBacklog, bytes: maxBacklogBytes, age: maxBacklogAge}}
	if o.Callback == "" {
		return f, nil
	}
	if u, err := url.Parse(o.Callback); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Fragment != "" || u.User != nil {
		return nil, fmt.Errorf("callback %q: want an http or https URL without fragment", o.Callback)
	}
	f.sub, err = websub.NewSubscriber(websub.SubscriberOptions{
		Callback: o.Callback, Client: &patient{d.client}, State: subscriptions{journal},
		Deliver: f.deliver, Rediscover: f.rediscover, OnEvent: f.onSubscription,
		Lease: o.Lease, RetryFirst: o.Pause, RefuseSHA1: o.RefuseSHA1, Logger: d.log,
	})
	return f, err
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
func (f *Follower) Handler() http.Handler {
	if f.sub == nil {
		return http.NotFoundHandler()
	}
	handler := f.sub.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !f.ready.Load() {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// Status returns the state of the Follower. It may be called at any time.
func (f *Follower) Status() FollowStatus {
	var subs []websub.SubscriptionState
	if f.sub != nil {
		subs = f.sub.Subscriptions()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	out := FollowStatus{Source: fetch.WithoutUser(f.address), Sets: make([]SetStatus, 0, len(f.sets)), Synced: f.synced, Error: f.trouble}
	for _, s := range f.sets {
		st := s.status
		st.URI, st.Name, st.Channel, st.Waiting, st.NextPull = s.uri, s.name, ChannelPoll, len(s.queue), s.due
		st.Topic, st.Backlog = s.channel.topic, s.queued
		if len(s.queue) > 0 {
			st.Oldest = s.queue[0].At
		}
		if s.overload != nil && !s.overload.Over {
			st.Overload = s.overload.Since
		}
		if !s.hub {
			st.HubError = s.spurned
		}
		if until, reason := s.pausedUntil, s.pausedBecause; time.Now().Before(until) {
			st.Paused, st.Reason = until, reason
			out.Sets = append(out.Sets, st)
			continue
		}
		if s.stream {
			st.Channel, st.Topic = ChannelEvents, s.channel.events
		}
		i := slices.IndexFunc(subs, func(o websub.SubscriptionState) bool { return o.ID == s.uri })
		if s.hub && i >= 0 {
			st.Channel, st.Topic, st.Hub, st.LeaseEnd = ChannelHub, subs[i].Topic, subs[i].Hub, subs[i].Expires
		}
		if st.Error == "" && s.trouble != "" {
			st.Error = s.trouble
		}
		out.Sets = append(out.Sets, st)
	}
	f.settleStatus(&out)
	return out
}
