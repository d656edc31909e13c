package main

import (
	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/demo"
	"lockstep/cmd/lockstep/internal/term"
)

func newDemo(io term.IO, out *term.Options) *cobra.Command {
	o := &demo.Options{Out: out}
	cmd := &cobra.Command{
		Use:   "demo [DIR] [flags]",
		Short: "See all of it: a Source, a hub and a mirror in one process",
		Long: `Publish some sample files, or a copy of DIR, mirror them, then edit, add and
delete a file at the Source and see each change arrive in the mirror, which the
Source's hub notifies. After every step Source and mirror are compared byte by
byte; an audit ends it.

Everything happens in a temporary directory on 127.0.0.1 and is removed at the
end. DIR is only read. The exit code is 0 only if all of it was true.`,
		Example: `  lockstep demo
  lockstep demo --keep`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.Dir = args[0]
			}
			return demo.Run(cmd.Context(), o, io)
		},
	}
	cmd.Flags().BoolVar(&o.Keep, "keep", false, "leave both running until Ctrl-C, the mirror following")
	return cmd
}
