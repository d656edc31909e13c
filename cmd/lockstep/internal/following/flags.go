package following

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/accesslog"
	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/alert"
	"lockstep/cmd/lockstep/internal/certificate"
	"lockstep/cmd/lockstep/internal/help"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/sdnotify"
	"lockstep/cmd/lockstep/internal/syncing"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
)

// Flags are the flags of follow.
type Flags struct {
	Sync        syncing.Flags
	Callback    Callback
	Admin       admin.Flags
	TLS         certificate.Flags
	Access      accesslog.Flags
	Alerts      alert.Flags
	Unsubscribe bool
	Poll        time.Duration
	channel     string
	check       time.Duration
	lease       time.Duration
}

// Declare declares the flags.
func (o *Flags) Declare(flags *pflag.FlagSet) {
	o.Sync.Declare(flags)
	o.Sync.DeclareShared(flags)
	help.Grouped(flags, help.NotifyGroup, func(flags *pflag.FlagSet) {
		o.declareChannels(flags)
		flags.StringVar(&o.Callback.URL, "callback", "", "the `URL` at which hubs reach this process; requests for it and below it must arrive at --listen (default: no hub is used)")
		flags.StringVar(&o.Callback.Listen, "listen", "", "listen at `HOST:PORT` for hubs, and for monitors: /-/healthz and /-/readyz, and with the admin token /-/metrics and /-/api/v1/follow (default: the port that --callback names, if any)")
		flags.BoolVar(&o.Unsubscribe, "unsubscribe", false, "end the subscriptions of a mirror that is taken down; --listen as when they were made, and --callback if it has changed since")
	})
	o.TLS.Declare(flags)
	o.Admin.Declare(flags, "metrics, status")
	o.Access.Declare(flags)
	o.Alerts.DeclareService(flags)
}

// DeclareOne declares the flags that one of several mirrors has.
func (o *Flags) DeclareOne(flags *pflag.FlagSet) {
	o.Sync.Declare(flags)
	o.declareChannels(flags)
}

func (o *Flags) declareChannels(flags *pflag.FlagSet) {
	flags.StringVar(&o.channel, "channel", "", "the only `CHANNEL` to learn of changes by: hub, events, or poll (default the best that the Source offers)")
	flags.DurationVar(&o.Poll, "poll", destination.DefaultPoll, "poll a Source that sends no notifications every `DURATION`")
	flags.DurationVar(&o.check, "check", destination.DefaultCheck, "also poll a Source that sends notifications every `DURATION`")
	flags.DurationVar(&o.lease, "lease", 0, "ask hubs for a subscription of this `DURATION`, which is renewed in time (default: the hub decides)")
}

// FollowOptions returns what the flags mean to a Destination and its Follower.
func (o *Flags) FollowOptions() (do destination.Options, fo destination.FollowOptions, err error) {
	if do, err = o.Sync.Options(); err != nil {
		return do, fo, err
	}
	switch o.channel {
	case "", destination.ChannelHub, destination.ChannelEvents, destination.ChannelPoll:
	default:
		return do, fo, term.Usagef("--channel %q: want hub, events or poll", o.channel)
	}
	switch {
	case o.channel == destination.ChannelHub && o.Callback.URL == "":
		return do, fo, term.Usage(errors.New("--channel hub: hubs cannot reach this machine without an address"), "give the address at which hubs can reach us: --callback URL")
	case o.Poll <= 0 || o.check <= 0:
		return do, fo, term.Usagef("--poll and --check must be above 0")
	case o.lease < 0 || o.lease > 0 && o.lease < time.Second:
		return do, fo, term.Usagef("--lease %s: want at least 1s", o.lease)
	}
	fo = destination.FollowOptions{Channel: o.channel, Poll: o.Poll, Check: o.check, Lease: o.lease}
	if o.check == destination.DefaultCheck { // no --check flag was given
		fo.Check = max(o.check, o.Poll)
	}
	return do, fo, nil
}

// Follow follows until ctx ends, or it is refused.
func Follow(ctx context.Context, o *Flags, io term.IO) error {
	if o.Sync.Shared {
		return followShared(ctx, o, io)
	}
	return followBy(ctx, o, io, func(do destination.Options) (*mirror.Run, error) {
		return mirror.Open(ctx, "follow", &o.Sync.Selection, &o.Sync.Network, do, false, io)
	})
}

// followBy follows with a mirror that open opens.
func followBy(ctx context.Context, o *Flags, io term.IO, open func(destination.Options) (*mirror.Run, error)) error {
	do, fo, err := o.FollowOptions()
	if err != nil {
		return err
	}
	if err := o.Sync.CheckSource(false); err != nil {
		return err
	}
	do.Logger = o.Sync.Out.Logger(io)
	if do.Deliver, err = o.Sync.Deliver(io); err != nil {
		return err
	}
	if o.Callback.TLS, err = o.TLS.Open(do.Logger); err != nil {
		return err
	}
	if _, _, err := o.Callback.Address(); err != nil {
		return err
	}
	if err := o.Admin.Check(); err != nil {
		return err
	}
	alerts, err := o.Alerts.Service(alert.Run{Command: "follow", Source: o.Sync.Source, Dest: o.Sync.Dest, Roots: o.Sync.Network.Certificates}, io)
	if err != nil {
		return err
	}
	requests, err := o.Access.Open(admin.KindOf("callback"), nil, io)
	if err != nil {
		return err
	}
	defer requests.Close()
	f := New(Options{
		Source: o.Sync.Source, Dest: o.Sync.Dest, Events: o.Sync.Events, Poll: o.Poll, Out: o.Sync.Out, Alerts: alerts, Requests: requests,
	}, io)
	closeEvents, err := o.Sync.OpenEvents(&f.Watcher)
	if err != nil {
		return err
	}
	do.OnEvent = func(e destination.Event) { f.Event(ctx, e) }
	r, err := open(do)
	if err != nil {
		return errors.Join(mirror.Explain(err, o.Sync.Dest), closeEvents())
	}
	defer r.Close()
	l, callback, err := o.Callback.Reachable(ctx)
	if err != nil {
		return errors.Join(err, closeEvents())
	}
	if l != nil {
		defer func() { _ = l.Close() }() // the server closes it as well
	}
	if callback != "" {
		o.Callback.TLS.WarnAbout(callback, io)
	}
	fo.Callback, fo.OnSync, fo.OnPass = callback, f.Passed, f.Ended
	follower, err := r.Dest.Follow(o.Sync.Source, fo)
	if err != nil {
		return errors.Join(term.Usage(err, ""), closeEvents())
	}
	access, err := o.Admin.Open(ctx, r.Memory(), l != nil, o.Callback.TLS, io)
	if err != nil {
		return errors.Join(err, closeEvents())
	}
	defer access.Close()
	sdnotify.Send(io.LookupEnv, sdnotify.Ready, sdnotify.Status("first sync"))
	f.memory, f.lastRun = r.Memory(), r.Note()
	within, end := r.Within(ctx)
	err = r.Lost(f.Follow(within, follower, r.Client, access, l))
	end()
	if cerr := closeEvents(); err == nil {
		err = cerr
	}
	err = mirror.ExplainSource(err, o.Sync.Source, o.Sync.Dest)
	if mirror.Interrupted(ctx, err) {
		err = io.Interrupted("")
	}
	if perr := f.Conclude(err); err == nil {
		err = perr
	}
	return err
}
