package destination

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"lockstep/destination/internal/follow"
	"lockstep/destination/internal/localcheck"
	"lockstep/destination/internal/writebehind"
	"lockstep/destination/report"
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

	// PollMost is the most to which the time between looks at a set without
	// notifications grows while nothing changes there; it falls again when
	// something does. Default Poll: it is always the same.
	PollMost time.Duration

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

	// OnPass, if not nil, is called after each look at the Source or one of its sets,
	// also if that found nothing to do. It is never called concurrently.
	OnPass func()

	// Pause is the first wait after something failed, from which waits grow,
	// and the least there is between looks at a set that something asked for;
	// default DefaultPause.
	Pause time.Duration

	// PauseMost is the most to which waits after failures grow; default a minute.
	// By default a set that fails is also looked at whenever one that does not
	// would be; with PauseMost it is not.
	PauseMost time.Duration

	// Turn, if not nil, is called before each piece of work: a look at the Source,
	// or applying notifications. It blocks until the work may begin, and returns
	// the context of the work and a function that is called when it has ended. If
	// that context ends with [ErrTurn] as its cause, the work is interrupted, and
	// continued after another call. It is never called concurrently.
	Turn func(ctx context.Context, w Work) (context.Context, func())

	// CheckBudget limits the share of time that the checks of the mirrors' files take
	// (see [CheckLocal]), to a twentieth, of all Followers that share it; default: one
	// for this Follower.
	CheckBudget *CheckBudget
}

// Work is a piece of work of a [Follower].
type Work = follow.Work

// A CheckBudget is shared by the Followers of a process. The zero value is ready to use.
// It is safe for concurrent use.
type CheckBudget = localcheck.Budget

// ErrTurn is the cause of a context that interrupts the work of a [Follower] because
// it is the turn of others.
var ErrTurn = follow.ErrTurn

// A Follower keeps a mirror in step with a Source for as long as it runs: by
// notifications where they come, and by looking in any case. See
// [Destination.Follow].
type Follower struct {
	address  string
	follower *follow.Follower
}

// The state of a [Follower]. Package report declares it.
type (
	FollowStatus   = report.FollowStatus
	SetStatus      = report.SetStatus
	FollowCounters = report.FollowCounters
)

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
	m := &followedMirror{d: own, address: address, poll: o.Poll, journal: journal, pace: localcheck.NewPace(o.CheckBudget)}
	f := &Follower{address: address}
	f.follower, err = follow.New(m, follow.Options{
		Poll: o.Poll, Check: o.Check, Pause: o.Pause, Callback: o.Callback, Channel: o.Channel, Lease: o.Lease, RefuseSHA1: o.RefuseSHA1, PollMost: o.PollMost, PauseMost: o.PauseMost, Turn: o.Turn,
		Client: d.client, Log: d.log, Journal: journal, Allow: own.allowStream, OnSync: o.OnSync, OnPass: o.OnPass,
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
// for safety is left as it is, reported and tried again, while the others continue.
// At its start it returns an [ErrRefused] when the mirror is one of another
// Source, and a [SetError] when the Source does not offer a set that is to be
// followed; at any time what keeps the mirror itself from being written. It must
// not be called twice.
func (f *Follower) Run(ctx context.Context) error { return f.follower.Run(ctx) }

// Status returns the state of the Follower. It may be called at any time.
func (f *Follower) Status() FollowStatus {
	st := f.follower.Status()
	st.Source = fetch.WithoutUser(f.address)
	return st
}

// Progress reports whether each set was read at least once, or failed to be; and then
// whether all were in step at some time, and whether the last attempts have succeeded. It
// may be called at any time, and costs much less than Status.
func (f *Follower) Progress() (read, inStep, works bool) { return f.follower.Progress() }
