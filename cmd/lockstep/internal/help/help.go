// Package help prints how commands are used, with the flags in groups.
package help

import (
	"strings"
	"text/template"

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

// helpWidth is where flag usages are wrapped.
const helpWidth = 100

// PrintUsage writes how a command is used to where its help goes.
func PrintUsage(cmd *cobra.Command) error {
	t, err := template.New("usage").Funcs(template.FuncMap{"flags": groupUsages, "rpad": rpad, "groups": Groups, "exitCodes": ExitCodes}).Parse(usageTemplate)
	if err != nil {
		return err // unreachable: it parses
	}
	return t.Execute(cmd.OutOrStderr(), cmd)
}

// groupUsages describes the flags of one group.
func groupUsages(flags *pflag.FlagSet, group string) string {
	return strings.TrimRight(InGroup(flags, group).FlagUsagesWrapped(helpWidth), "\n")
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
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}
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

Each flag can also be set in the environment: --some-flag as LOCKSTEP_SOME_FLAG.

Exit codes:
{{- range exitCodes}}
  {{printf "%-4s" .Code}} {{.Meaning}}{{end}}
`

const HelpTemplate = `{{with (or .Long .Short)}}{{.}}

{{end}}{{.UsageString}}`
