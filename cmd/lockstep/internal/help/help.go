// Package help prints how commands are used, with the flags in groups.
package help

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// An ExitCode is an exit code of the commands, with its meaning.
type ExitCode struct{ Code, Meaning string }

// ExitCodes returns the exit codes, which are shown with every command's help.
func ExitCodes() []ExitCode {
	return []ExitCode{
		{"0", "in step, nothing wrong"},
		{"1", "could not finish, or some resources failed (each is named on stderr)"},
		{"2", "wrong usage or configuration"},
		{"3", "audit found differences, validate found errors"},
		{"4", "refused for safety: nothing was deleted"},
		{"130", "interrupted; progress is kept"},
	}
}

// groupKey is the annotation that puts a flag under a heading of its own in help
// texts.
const groupKey = "group"

// The headings of flags, in the order in which they are shown below those that
// have none.
const (
	NotifyGroup  = "Notifications"
	SelectGroup  = "Selection and file names"
	OutcomeGroup = "Handling of changes"
	AlertGroup   = "Alerts"
	HubGroup     = "Embedded hub"
	NetworkGroup = "Network flags" // those of networkOptions
)

// Groups returns the headings in their order.
func Groups() []string {
	return []string{NotifyGroup, SelectGroup, OutcomeGroup, AlertGroup, HubGroup, NetworkGroup}
}

// Grouped declares flags under a heading.
func Grouped(all *pflag.FlagSet, group string, declare func(*pflag.FlagSet)) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	declare(flags)
	flags.VisitAll(func(f *pflag.Flag) { f.Annotations = map[string][]string{groupKey: {group}} })
	all.AddFlagSet(flags)
}

// helpWidth is where flag usages are wrapped, unless the terminal is narrower.
const helpWidth = 100

// overrun is the number of columns by which pflag lets the last line of a usage exceed the width.
const overrun = 5

// Declare has a command, and those below it, print help that fits into so many columns; 0 if the
// output is no terminal.
func Declare(root *cobra.Command, columns int) {
	width := helpWidth
	if columns > 0 {
		width = min(width, max(columns-overrun, overrun))
	}
	print := func(cmd *cobra.Command, to io.Writer) error {
		flags := func(flags *pflag.FlagSet, group string) string {
			return strings.TrimRight(InGroup(flags, group).FlagUsagesWrapped(width), "\n")
		}
		t, err := template.New("usage").Funcs(template.FuncMap{
			"flags": flags, "rpad": rpad, "indent": func(padding int) int { return padding + 3 }, "groups": Groups, "exitCodes": ExitCodes, "wrapped": func(text string, indent int) string { return wrapped(text, columns, indent) },
		}).Parse(usageTemplate)
		if err != nil {
			return err // unreachable: it parses
		}
		return t.Execute(to, cmd)
	}
	root.SetUsageFunc(func(cmd *cobra.Command) error { return print(cmd, cmd.OutOrStderr()) })
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		out := cmd.OutOrStdout()
		if text := strings.TrimRight(cmp.Or(cmd.Long, cmd.Short), " \n"); text != "" {
			_, _ = fmt.Fprintf(out, "%s\n\n", wrapped(text, columns, 0)) // there is no one left to report to
		}
		_ = print(cmd, out) // likewise
	})
}

// wrapped returns text whose paragraphs fit into so many columns, after an indentation. Those that
// fit, and those that have indented lines, stay as they are.
func wrapped(text string, columns, indent int) string {
	columns = max(columns-indent, 0)
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		lines := strings.Split(p, "\n")
		if columns == 0 || !slices.ContainsFunc(lines, func(l string) bool { return utf8.RuneCountInString(l) > columns }) ||
			slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, " ") }) {
			continue
		}
		line, all := "", []string{}
		for _, word := range strings.Fields(p) {
			switch {
			case line == "":
				line = word
			case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > columns:
				line, all = word, append(all, line)
			default:
				line += " " + word
			}
		}
		paragraphs[i] = strings.Join(append(all, line), "\n"+strings.Repeat(" ", indent))
	}
	return strings.Join(paragraphs, "\n\n")
}

// InGroup returns the flags below one heading; "" has those of none.
func InGroup(flags *pflag.FlagSet, group string) *pflag.FlagSet {
	some := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.VisitAll(func(f *pflag.Flag) {
		if strings.Join(f.Annotations[groupKey], "") == group {
			some.AddFlag(f)
		}
	})
	return some
}

// Commands returns the commands below one, each followed by those below it.
func Commands(below *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, cmd := range below.Commands() {
		all = append(append(all, cmd), Commands(cmd)...)
	}
	return all
}

func rpad(s string, width int) string { return s + strings.Repeat(" ", max(0, width-len(s))) }

const usageTemplate = `Usage:
  {{if .HasAvailableSubCommands}}{{.CommandPath}} COMMAND [flags]{{else}}{{.UseLine}}{{end}}
{{- if .HasAvailableSubCommands}}

Commands:
{{- range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{wrapped .Short (indent .NamePadding)}}{{end}}{{end}}{{end}}
{{- if .HasExample}}

Examples:
{{.Example}}{{end}}
{{- if .HasAvailableLocalFlags}}

Flags:
{{flags .LocalFlags ""}}{{end}}
{{- $local := .LocalFlags}}
{{- range groups}}{{$group := .}}{{with flags $local $group}}

{{$group}}:
{{.}}{{end}}{{end}}
{{- if .HasAvailableInheritedFlags}}

Flags of every command:
{{flags .InheritedFlags ""}}{{end}}

{{wrapped "Each flag can also be set in the environment: --some-flag as LOCKSTEP_SOME_FLAG." 0}}

Exit codes:
{{- range exitCodes}}
  {{printf "%-4s" .Code}} {{wrapped .Meaning 7}}{{end}}
`
