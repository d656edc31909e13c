package main

import (
	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/differences"
	"lockstep/cmd/lockstep/internal/help"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/network"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/garbage"
)

func newDiff(io term.IO, out *term.Options) *cobra.Command {
	o := &differences.Options{Out: out}
	cmd := &cobra.Command{
		Use:   "diff SOURCE --from TIME [--to TIME] [flags]",
		Short: "List what changed at SOURCE between two instants",
		Long: `List the resources of SOURCE that changed between two instants, from its archived
lists and dumps and its changes since. Each resource that differs is one line, by
URI: created, updated or deleted, or unknown where SOURCE states nothing by which
its contents can be compared.

Only documents are read. The exit code is 0 whether or not there are differences,
and 1 if the state at an instant is not known: then the error says from when on it
is known.`,
		Example: `  lockstep diff https://example.org/ --from 2026-05-01 --to 2026-06-01
  lockstep diff https://example.org/ --from 2026-05-01T12:00:00Z --include '*.pdf'
  lockstep diff https://example.org/ --from 2026-05-01 --json`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Source = args[0]
			if err := mirror.RefuseEmptyInstant(cmd.Flags(), "to"); err != nil {
				return err
			}
			garbage.TuneCopying()
			return differences.Run(cmd.Context(), o, io)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.From, "from", "", "the first `TIME`: a date, as 2026-05-01 (its first instant in UTC), or a time, as 2026-05-01T12:00:00Z")
	flags.StringVar(&o.To, "to", "", "the second `TIME` (default now)")
	help.Grouped(flags, help.SelectGroup, o.DeclareWhich)
	o.Network.Declare(flags, network.TheSource)
	return cmd
}
