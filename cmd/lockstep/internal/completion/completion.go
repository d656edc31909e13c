// Package completion describes to shells how command lines of lockstep continue: the
// scripts of the shells run lockstep for every word that is to be completed.
package completion

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/help"
)

// Shells returns the names of the shells that [Script] supports.
func Shells() []string { return []string{"bash", "zsh", "fish", "powershell"} }

// Script returns the script that a shell reads at its start.
func Script(root *cobra.Command, shell string) (string, error) {
	var b bytes.Buffer
	write := map[string]func() error{
		"bash":       func() error { return root.GenBashCompletionV2(&b, true) },
		"zsh":        func() error { return root.GenZshCompletion(&b) },
		"fish":       func() error { return root.GenFishCompletion(&b, true) },
		"powershell": func() error { return root.GenPowerShellCompletionWithDesc(&b) },
	}[shell]
	if write == nil {
		return "", fmt.Errorf("unknown shell %q", shell)
	}
	if err := write(); err != nil {
		return "", fmt.Errorf("write the script for %s: %w", shell, err)
	}
	return b.String(), nil
}

// Asked reports whether cmd is what the scripts run.
func Asked(cmd *cobra.Command) bool { return cmd.Name() == cobra.ShellCompRequestCmd }

// DropQuotes removes the quotes around the names of values from the descriptions of
// flags, which shells show as they are.
func DropQuotes(root *cobra.Command) {
	drop := func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") }
	root.PersistentFlags().VisitAll(drop)
	for _, cmd := range help.Commands(root) {
		cmd.Flags().VisitAll(drop)
	}
}

// Declare declares how the arguments and flags of all commands are completed.
func Declare(root *cobra.Command) {
	declareFlags(root, root.PersistentFlags())
	for _, cmd := range help.Commands(root) {
		cmd.ValidArgsFunction = argumentsOf(strings.TrimPrefix(cmd.CommandPath(), root.Name()+" "))
		declareFlags(cmd, cmd.Flags())
	}
}

// Values returns the values that a flag has, or the usual ones among them; nil if
// there is no such list.
func Values(flag string) []string {
	switch flag {
	case "channel":
		return []string{"hub", "events", "poll"}
	case "check-local":
		return []string{"always", "daily", "never"}
	case "delete":
		return []string{"apply", "keep"}
	case "format":
		return []string{"json", "jsonl", "csv"}
	case "hash":
		return []string{"sha-256", "md5", "sha-1", "sha-384", "sha-512"}
	case "keep-versions":
		return []string{"all", "off"}
	case "log-format":
		return []string{"text", "json"}
	case "log-level":
		return []string{"debug", "info", "warn", "error"}
	case "oai-sets":
		return []string{"collection"}
	case "proxy":
		return []string{"none"}
	case "sample":
		return []string{"all"}
	case "signature", "hub-signature":
		return []string{"sha1", "sha256", "sha384", "sha512"}
	case "verify":
		return []string{"strongest", "all"}
	case "via":
		return []string{"auto", "list", "dump"}
	case "with":
		return []string{"describedby"}
	}
	return nil
}

// declareFlags declares how the values of flags are completed: from a list, as files
// or directories where the value is one, and not at all otherwise.
func declareFlags(cmd *cobra.Command, flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		kind, _ := pflag.UnquoteUsage(f)
		complete := cobra.NoFileCompletions
		switch values := Values(f.Name); {
		case f.Value.Type() == "bool":
			return
		case f.Value.Type() == "stringSlice" && values != nil:
			complete = listOf(values)
		case values != nil:
			complete = cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
		case kind == "FILE":
			complete = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
		case kind == "DIR", kind == "OUT":
			complete = directories
		}
		_ = cmd.RegisterFlagCompletionFunc(f.Name, complete) // unreachable: the flag exists, and each is declared once
	})
}

// listOf completes the last of several values with commas between them.
func listOf(values []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		given := word[:strings.LastIndex(word, ",")+1]
		var lists []cobra.Completion
		for _, v := range values {
			if !slices.Contains(strings.Split(given, ","), v) {
				lists = append(lists, given+v)
			}
		}
		return lists, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// argumentsOf returns how the arguments of a command are completed.
func argumentsOf(command string) cobra.CompletionFunc {
	switch command {
	case "sync", "follow", "audit":
		return inTurn(files, directories) // SOURCE DEST
	case "diff":
		return inTurn(files)
	case "serve", "publish", "status", "demo", "man":
		return inTurn(directories)
	case "state info", "state check", "state migrate":
		return inTurn(directories)
	case "state backup":
		return inTurn(directories, files)
	case "state restore":
		return inTurn(files, directories)
	case "state copy":
		return inTurn(files, files)
	case "validate", "map":
		return files
	case "snippet":
		return inTurn(cobra.FixedCompletions([]cobra.Completion{"nginx", "apache", "caddy"}, cobra.ShellCompDirectiveNoFileComp))
	case "completion":
		return inTurn(cobra.FixedCompletions(Shells(), cobra.ShellCompDirectiveNoFileComp))
	}
	return cobra.NoFileCompletions
}

// inTurn completes the first argument with the first function, and so on, and no
// further ones.
func inTurn(complete ...cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= len(complete) {
			return cobra.NoFileCompletions(cmd, args, word)
		}
		return complete[len(args)](cmd, args, word)
	}
}

// files leaves a word to the shell, which completes paths.
func files(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

func directories(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}
