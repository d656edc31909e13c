package main

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/following"
	"lockstep/cmd/lockstep/internal/hangup"
	"lockstep/cmd/lockstep/internal/mirrors"
	"lockstep/cmd/lockstep/internal/syncing"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/internal/garbage"
)

func newFollow(io term.IO, out *term.Options, signals hangup.Signals) *cobra.Command {
	o, many := &following.Flags{Sync: syncing.Flags{Out: out}}, &mirrors.Flags{}
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

With --config FILE [NAME...], one process keeps all mirrors in step that FILE
describes, or those that are named, each by a channel of its own. One that cannot be
opened or fails is retried and does not end the others. SIGHUP has the file read again.

Before a mirror is taken down, --unsubscribe ends its subscriptions at hubs, and
does nothing else: exit code 1 if one could not be ended.`,
		Example: `  lockstep follow https://example.org/ mirror
  lockstep follow example.org mirror --callback http://mirror.example.net:8090/
  lockstep follow example.org mirror --callback https://mirror.example.net/hook/ --listen 127.0.0.1:8090
  lockstep follow example.org mirror --poll 10s --exec ./index-changes
  lockstep follow example.org mirror --unsubscribe
  lockstep follow --config mirrors.yaml --listen 127.0.0.1:8090`,
		Args: oneOrMany(many),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := many.Check(cmd.Flags(), io.LookupEnv); err != nil {
				return err
			}
			if err := config.RefuseUnmet(config.OnCommandLine(cmd.Flags(), io.LookupEnv), followNeeds(cmd.Flags(), o)...); !many.Are() && err != nil {
				return err // the file of several mirrors has these keys, too
			}
			if err := o.Sync.RefuseSharedConfig(); many.Are() && err != nil {
				return err
			}
			switch {
			case many.Are() && o.Unsubscribe:
				return mirrors.Unsubscribe(cmd.Context(), many, o, cmd.Flags(), args, io)
			case many.Are():
				return asService(cmd.Context(), out, io, func(ctx context.Context) error {
					return mirrors.Follow(ctx, many, o, cmd.Flags(), args, io, signals)
				})
			}
			signals.Release()
			o.Sync.Source, o.Sync.Dest = args[0], args[1]
			if o.Unsubscribe {
				return following.Unsubscribe(cmd.Context(), o, io)
			}
			garbage.TuneCopying()
			return asService(cmd.Context(), out, io, func(ctx context.Context) error { return following.Follow(ctx, o, io) })
		},
	}
	o.Declare(cmd.Flags())
	many.Declare(cmd.Flags())
	return cmd
}

// followNeeds returns what flags of follow need, in order not to do nothing.
func followNeeds(flags *pflag.FlagSet, o *following.Flags) []config.Need {
	channel := flags.Lookup("channel").Value.String()
	calledBack := o.Unsubscribe || channel == "" || channel == destination.ChannelHub
	return append(config.Needs(flags, "access-log-format access-log", "failure-after on-failure ping-url", "lease callback"),
		config.Need{Flags: []string{"callback"}, Not: "--channel " + channel, Met: calledBack})
}
