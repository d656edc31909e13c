package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/cmd/lockstep/internal/term"
)

func newCompletion(io term.IO, out *term.Options) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell [flags]",
		Short: "Print the script by which a shell completes command lines",
		Long: `Print the script by which a shell completes commands, flags and their values. The
.deb and .rpm packages install those of bash, zsh and fish. The examples write them
to files that the shells read; bash does so with the package bash-completion.`,
		Example: `  lockstep completion bash >~/.local/share/bash-completion/completions/lockstep
  lockstep completion zsh >"${fpath[1]}/_lockstep"
  lockstep completion fish >~/.config/fish/completions/lockstep.fish
  lockstep completion powershell >>$PROFILE`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			script, err := completion.Script(cmd.Root(), args[0])
			if err != nil {
				return term.Usage(fmt.Errorf("completion: %w", err), "known shells: "+strings.Join(completion.Shells(), ", "))
			}
			if out.JSON {
				return io.PrintJSON(map[string]string{"shell": args[0], "script": script})
			}
			io.Printf("%s", script)
			return nil
		},
	}
}
