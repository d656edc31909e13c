package destination

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// The channels by which news of a set reach a Follower, best first.
const (
	ChannelHub    = "hub"    // a WebSub hub calls us
	ChannelEvents = "events" // the Source keeps a stream of events open
	ChannelPoll   = "poll"   // none: the Source's documents are looked at
)

const (
	// DefaultPoll is how often a Source that tells nothing is looked at.
	DefaultPoll = time.Minute
	// DefaultCheck is how often one that does is looked at all the same
	// (RN-RX-04).
	DefaultCheck = time.Hour
)

// FollowOptions configures a [Follower]. The zero value is ready to use.
type FollowOptions struct {
	// Poll is how long to wait between looks at a set of which no news come;
	// default DefaultPoll.
	Poll time.Duration

	// Check is how long to wait between looks at a set of which news come:
	// notifications alone are never trusted to be complete. Default
	// DefaultCheck, or Poll if that is longer.
	Check time.Duration

	// Callback is the URL by which others reach [Follower.Handler], with any
	// path; "" if they cannot. Hubs are subscribed to only if there is one.
	Callback string

	// Channel is the only channel to use beside looking: ChannelHub,
	// ChannelEvents, or ChannelPoll for none. Default: the best there is.
	Channel string

	// Lease is the time to ask hubs for; default: they decide.
	Lease time.Duration

	// RefuseSHA1 says to take deliveries signed with HMAC-SHA1 for forged
	// (WS-X-08).
	RefuseSHA1 bool

	// OnSync, if not nil, is told what became of each pass that did something
	// or failed: a look at the Source, or notifications that were applied. It
	// is never called concurrently.
	OnSync func(Report, error)

	Clock func() time.Time // default time.Now
}

// A Follower keeps a mirror in step with a Source for as long as it runs: by
// notifications where they come, and by looking in any case. See
// [Destination.Follow].
type Follower struct {
	d       *Destination
	address string
	opts    FollowOptions

	mu     sync.Mutex // guards what follows
	status FollowStatus
}

// FollowStatus is how far a [Follower] is.
type FollowStatus struct {
	Source string      `json:"source"`
	Sets   []SetStatus `json:"sets"`
	Synced bool        `json:"synced"`          // all sets were in step since Run began
	Error  string      `json:"error,omitempty"` // why the last look at the Source failed
}

// SetStatus is how far a [Follower] is with one set.
type SetStatus struct {
	URI       string        `json:"uri"`
	Name      string        `json:"name"`
	Channel   string        `json:"channel"`         // ChannelHub, ChannelEvents or ChannelPoll
	Topic     string        `json:"topic,omitempty"` // URI of the channel
	Hub       string        `json:"hub,omitempty"`   // that is subscribed to
	LeaseEnd  time.Time     `json:"lease_end,omitzero"`
	Watermark time.Time     `json:"watermark,omitzero"`         // on the Source's clock: all changes before are here
	Notified  time.Time     `json:"last_notification,omitzero"` // when the last notification came
	Pulled    time.Time     `json:"last_pull,omitzero"`         // when the set was last looked at
	NextPull  time.Time     `json:"next_pull,omitzero"`
	Lag       time.Duration `json:"lag_ns"`  // from the last change applied by a notification, at the Source, to its file here
	Waiting   int           `json:"waiting"` // notifications taken and not yet processed
	Error     string        `json:"error,omitempty"`
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
}

// Follow returns a Follower of the Source at address, which may be anything
// [Destination.Sync] takes. It starts nothing: see [Follower.Run]. It fails, in
// words a user can act on, if the options cannot be used.
func (d *Destination) Follow(address string, o FollowOptions) (*Follower, error) {
	switch o.Channel {
	case "", ChannelHub, ChannelEvents, ChannelPoll:
	default:
		return nil, fmt.Errorf("channel %q: want %s, %s or %s", o.Channel, ChannelHub, ChannelEvents, ChannelPoll)
	}
	if d.opts.DryRun {
		return nil, errors.New("nothing can be followed by a dry run")
	}
	if o.Callback != "" {
		u, err := url.Parse(o.Callback)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Fragment != "" || u.User != nil {
			return nil, fmt.Errorf("callback %q: want an http or https URL without fragment", o.Callback)
		}
	}
	if o.Channel == ChannelHub && o.Callback == "" {
		return nil, errors.New("without a callback no hub can be subscribed to")
	}
	if o.Poll <= 0 {
		o.Poll = DefaultPoll
	}
	if o.Check <= 0 {
		o.Check = max(DefaultCheck, o.Poll)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &Follower{d: d, address: address, opts: o, status: FollowStatus{Source: address}}, nil
}

// Handler serves what hubs call: mount it where the path of Callback, and all
// below it, arrives. It can be used before Run, and answers 503 until then.
func (f *Follower) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) })
}

// Status returns how far the Follower is. It may be called at any time.
func (f *Follower) Status() FollowStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.status
	s.Sets = append([]SetStatus{}, s.Sets...)
	return s
}

// Run brings the mirror into step and keeps it there until ctx ends, and then
// returns nil soon: what was finished is kept. What fails is tried again, with
// growing pauses; a Source that is down is no reason to end. It returns an
// [ErrRefused] when a pass was refused for safety, and what keeps the mirror
// itself from being written.
func (f *Follower) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		if err := f.pull(ctx); err != nil {
			return err
		}
		timer.Reset(f.opts.Poll)
	}
}

// pull looks at the Source.
func (f *Follower) pull(ctx context.Context) error {
	r, err := f.d.Sync(ctx, f.address)
	if ctx.Err() != nil {
		return nil
	}
	f.mu.Lock()
	f.status.Error = ""
	if err != nil {
		f.status.Error = err.Error()
	}
	f.status.Synced = f.status.Synced || err == nil
	for _, set := range r.BySet {
		f.booked(&set)
	}
	f.mu.Unlock()
	if f.opts.OnSync != nil && (err != nil || r.Mode != ModeNone) {
		f.opts.OnSync(r, err)
	}
	if errors.Is(err, ErrRefused) {
		return err
	}
	return nil
}

func (f *Follower) booked(set *SetReport) {
	for i := range f.status.Sets {
		if s := &f.status.Sets[i]; s.URI == set.URI {
			s.Pulled, s.Watermark, s.Error = f.opts.Clock(), set.SyncedUntil, set.Error
			s.Pulls++
			return
		}
	}
	f.status.Sets = append(f.status.Sets, SetStatus{URI: set.URI, Name: set.Name, Channel: ChannelPoll,
		Watermark: set.SyncedUntil, Pulled: f.opts.Clock(), Error: set.Error, FollowCounters: FollowCounters{Pulls: 1}})
}
