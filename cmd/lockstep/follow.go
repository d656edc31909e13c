package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/following"
	"lockstep/cmd/lockstep/internal/help"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/internal/garbage"
)

// followOptions are the flags of follow.
type followOptions struct {
	sync syncOptions
	following.Callback
	channel string
	poll    time.Duration
	check   time.Duration
	lease   time.Duration

	unsubscribe bool

	admin.Flags
}

func newFollow(io term.IO, out *term.Options) *cobra.Command {
	o := &followOptions{sync: syncOptions{out: out}}
	cmd := &cobra.Command{
		Use:   "follow SOURCE DEST [flags]",
		Short: "Bring DEST into step with SOURCE, and keep it there",
		Long: `Bring DEST into step with SOURCE as sync does, and keep it in step until Ctrl-C:
changes at the Source are in DEST a moment later. SOURCE and DEST are the same as
for sync, and either command can continue where the other has ended.

The channel for notifications is chosen for each set and reported. With
--callback URL, follow subscribes at the hub that the Source names, which calls
that URL. Otherwise it reads an event stream, which Lockstep's own Sources offer.
A Source with neither is polled every --poll; the others are also polled every
--check, because notifications can be lost.

Failures are retried. A set that is refused for safety is left unchanged and
retried; nothing that a Source or a hub sends ends follow.
The line "ready: ..." on stdout says that the first sync is done.

Before a mirror is taken down, --unsubscribe ends its subscriptions at hubs, and
does nothing else: exit code 1 if one could not be ended.`,
		Example: `  lockstep follow https://example.org/ mirror
  lockstep follow example.org mirror --callback http://mirror.example.net:8090/
  lockstep follow example.org mirror --callback https://mirror.example.net/hook/ --listen 127.0.0.1:8090
  lockstep follow example.org mirror --poll 10s --exec ./index-changes
  lockstep follow example.org mirror --unsubscribe`,
		Args: arguments(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.sync.Source, o.sync.Dest = args[0], args[1]
			if o.unsubscribe {
				return runUnsubscribe(cmd.Context(), o, io)
			}
			return asService(cmd.Context(), out, io, func(ctx context.Context) error { return runFollow(ctx, o, io) })
		},
	}
	flags := cmd.Flags()
	o.sync.declare(flags)
	help.Grouped(flags, help.NotifyGroup, func(flags *pflag.FlagSet) {
		flags.StringVar(&o.URL, "callback", "", "the `URL` at which hubs reach this process; requests for it and below it must arrive at --listen (default: no hub is used)")
		flags.StringVar(&o.Listen, "listen", "", "listen at `HOST:PORT` for hubs, and for monitors: /-/healthz and /-/readyz, and with the admin token /-/metrics and /-/api/v1/follow (default: the port that --callback names, if any)")
		flags.StringVar(&o.channel, "channel", "", "the only `CHANNEL` to learn of changes by: hub, events, or poll (default the best that the Source offers)")
		flags.DurationVar(&o.poll, "poll", destination.DefaultPoll, "poll a Source that sends no notifications every `DURATION`")
		flags.DurationVar(&o.check, "check", destination.DefaultCheck, "also poll a Source that sends notifications every `DURATION`")
		flags.DurationVar(&o.lease, "lease", 0, "ask hubs for a subscription of this `DURATION`, which is renewed in time (default: the hub decides)")
		flags.BoolVar(&o.unsubscribe, "unsubscribe", false, "end the subscriptions of a mirror that is taken down; --callback and --listen as when they were made (default: as recorded)")
	})
	o.Flags.Declare(flags, "metrics, status")
	return cmd
}

// options returns what the flags mean to a Destination and its Follower.
func (o *followOptions) options() (do destination.Options, fo destination.FollowOptions, err error) {
	if do, err = o.sync.options(); err != nil {
		return do, fo, err
	}
	switch o.channel {
	case "", destination.ChannelHub, destination.ChannelEvents, destination.ChannelPoll:
	default:
		return do, fo, term.Usagef("--channel %q: want hub, events or poll", o.channel)
	}
	switch {
	case o.channel == destination.ChannelHub && o.URL == "":
		return do, fo, term.Usage(errors.New("--channel hub: hubs cannot reach this machine without an address"), "give the address at which hubs can reach us: --callback URL")
	case o.poll <= 0 || o.check <= 0:
		return do, fo, term.Usagef("--poll and --check must be above 0")
	case o.lease < 0 || o.lease > 0 && o.lease < time.Second:
		return do, fo, term.Usagef("--lease %s: want at least 1s", o.lease)
	}
	fo = destination.FollowOptions{Channel: o.channel, Poll: o.poll, Check: o.check, Lease: o.lease}
	if o.check == destination.DefaultCheck { // no --check flag was given
		fo.Check = max(o.check, o.poll)
	}
	return do, fo, nil
}

// runFollow follows until ctx ends, or it is refused.
func runFollow(ctx context.Context, o *followOptions, io term.IO) error {
	garbage.TuneCopying()
	do, fo, err := o.options()
	if err != nil {
		return err
	}
	if err := o.sync.CheckSource(false); err != nil {
		return err
	}
	do.Logger = o.sync.out.Logger(io)
	hook, err := mirror.NewExecHook(o.sync.exec, o.sync.Source, o.sync.Dest, io)
	if err != nil {
		return err
	}
	if hook != nil {
		do.Deliver = hook.Deliver
	}
	if _, _, err := o.Address(); err != nil {
		return err
	}
	if err := o.Flags.Check(); err != nil {
		return err
	}
	f := following.New(following.Options{Source: o.sync.Source, Dest: o.sync.Dest, Events: o.sync.events, Poll: o.poll, Out: o.sync.out}, io)
	closeEvents, err := o.sync.openEvents(&f.Watcher)
	if err != nil {
		return err
	}
	do.OnEvent = func(e destination.Event) { f.Event(ctx, e) }
	r, err := mirror.Open(&o.sync.Selection, &o.sync.network, do, false, io)
	if err != nil {
		return errors.Join(mirror.Explain(err, o.sync.Dest), closeEvents())
	}
	defer r.Close()
	l, callback, err := o.Reachable(ctx)
	if err != nil {
		return errors.Join(err, closeEvents())
	}
	if l != nil {
		defer func() { _ = l.Close() }() // the server closes it as well
	}
	fo.Callback, fo.OnSync = callback, f.Passed
	f.RecordIn(r.Memory())
	follower, err := r.Dest.Follow(o.sync.Source, fo)
	if err != nil {
		return errors.Join(term.Usage(err, ""), closeEvents())
	}
	access, err := o.Flags.Open(ctx, r.Memory(), l != nil, io)
	if err != nil {
		return errors.Join(err, closeEvents())
	}
	defer access.Close()
	err = f.Follow(ctx, follower, r.Client, access, l)
	if cerr := closeEvents(); err == nil {
		err = cerr
	}
	err = mirror.Explain(err, o.sync.Dest)
	if mirror.Interrupted(ctx, err) {
		err = io.Interrupted("")
	}
	if perr := f.Conclude(err); err == nil {
		err = perr
	}
	return err
}
