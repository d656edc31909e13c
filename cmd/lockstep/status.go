package main

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/status"
	"lockstep/cmd/lockstep/internal/term"
)

func newStatus(io term.IO, out *term.Options) *cobra.Command {
	o := status.Options{LookupEnv: io.LookupEnv}
	cmd := &cobra.Command{
		Use:   "status [URL|DIR|NAME...] [flags]",
		Short: "Show the state of a service or a mirror: whether it works, its age, what is pending",
		Long: `Show the state of a service or a mirror, in one sentence and a table: for each set
or upstream its state, when it was last in step, how long ago that was, the next
attempt, how much is pending, and the last error with its remedy.

DIR is a mirror, the DIR of serve, or a state directory: of serve, of hub, or of a
mirror in a bucket. A process of this machine is asked through its admin socket. The
state of a mirror is read from its directory while no process, or another one, works
on it; it has the result of the last run of sync, follow or audit --fix.

URL is the base URL of a running serve or hub, or the address of a follow --listen:
whether it is ready, and which sets it cannot read; with its admin token
(--admin-token-file) all that its admin socket says.

With --config FILE [NAME...], of the mirrors that FILE describes only those that are
named are shown.

An age is not an error: an upstream that is polled every hour may be an hour old.
Subscriptions of a hub that fail are shown; they are not a failure of the hub.

Exit code 0 if all is well; 1 if something is failing, has not been in step yet or
cannot be read, or no process answers.`,
		Example: `  lockstep status mirror
  lockstep status --config lockstep.yaml
  lockstep status --config mirrors.yaml papers
  lockstep status https://data.example.org/
  lockstep status https://data.example.org/ --admin-token-file token --json
  lockstep status --state /var/lib/lockstep`,
		Args: func(cmd *cobra.Command, args []string) error {
			if o.Config != "" {
				return nil // names of mirrors
			}
			return arguments(0, 1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Config != "" && !slices.ContainsFunc(args, status.IsURL) {
				o.Names = args
			} else if len(args) > 0 {
				o.Target = args[0]
			}
			o.Log = out.Logger(io)
			return runStatus(cmd.Context(), o, out, io)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.State, "state", "", "the process, or the mirror in a bucket, has its state in `DIR`")
	flags.StringVar(&o.Config, "config", "", "the process has its configuration in `FILE`")
	flags.StringVar(&o.Admin, "admin", "", "the process listens for administration at `ADDRESS`: unix:PATH, or HOST:PORT, which takes the admin token")
	flags.StringVar(&o.TokenFile, "admin-token-file", "", "the admin token is in `FILE` (default admin-token in the state directory)")
	flags.StringVar(&o.CertFile, "tls-cert", "", "the process has the TLS certificate in `FILE`: at HOST:PORT it is asked by https, and answers with this certificate")
	flags.StringVar(&o.CAFile, "ca-file", "", "trust the certificates in `FILE` (PEM) besides the system's")
	return cmd
}

// runStatus prints the state of what the options say.
func runStatus(ctx context.Context, o status.Options, out *term.Options, io term.IO) error {
	r, err := status.Look(ctx, o)
	switch {
	case err != nil:
		return err
	case out.JSON:
		return errors.Join(io.PrintJSON(r), r.Check())
	}
	err = r.Check()
	if err != nil || !out.Quiet {
		r.Print(io)
	}
	return err
}
