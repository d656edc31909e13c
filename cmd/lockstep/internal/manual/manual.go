// Package manual writes the manual pages of the commands, for man(1), from what their
// help texts are made of.
package manual

import (
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/help"
)

// A Page is a manual page.
type Page struct {
	Name string // of its file, such as lockstep-sync.1
	Text string
}

// Pages returns the page of the root command, which describes what all have in
// common, and those of its commands. A page without a date has the zero one.
func Pages(root *cobra.Command, version string, date time.Time) []Page {
	pages := []Page{pageOf(root, version, date)}
	for _, cmd := range help.Commands(root) {
		if cmd.IsAvailableCommand() && cmd.Name() != "help" {
			pages = append(pages, pageOf(cmd, version, date))
		}
	}
	return pages
}

// pageOf returns the page of one command.
func pageOf(cmd *cobra.Command, version string, date time.Time) Page {
	day := ""
	if !date.IsZero() {
		day = date.UTC().Format(time.DateOnly)
	}
	name := nameOf(cmd)
	d := &document{}
	d.line(`.TH "` + escape(strings.ToUpper(name)) + `" "` + section + `" "` + day + `" "` + escape("lockstep "+version) + `" "Lockstep Manual"`) // a date has no minus signs
	d.macro("SH", "NAME")
	d.line(escape(name) + ` \- ` + escape(strings.ToLower(cmd.Short[:1])+cmd.Short[1:]))
	d.macro("SH", "SYNOPSIS")
	if cmd.HasAvailableSubCommands() {
		d.line(`\fB` + escape(cmd.CommandPath()) + `\fR \fICOMMAND\fR [flags]`)
	} else {
		d.line(`\fB` + escape(cmd.CommandPath()) + `\fR` + escape(strings.TrimPrefix(cmd.UseLine(), cmd.CommandPath())))
	}
	d.macro("SH", "DESCRIPTION")
	d.paragraphs(cmd.Long, cmd.Short)
	if cmd.HasAvailableSubCommands() {
		d.commands(cmd)
	}
	if cmd.HasParent() {
		d.flags("OPTIONS", cmd.LocalFlags())
		d.flags("COMMON OPTIONS", cmd.InheritedFlags())
	} else {
		d.flags("OPTIONS", cmd.LocalFlags())
	}
	d.exitStatus()
	d.environment(!cmd.HasParent())
	if !cmd.HasParent() {
		d.files()
	}
	d.examples(cmd.Example)
	d.seeAlso(cmd)
	return Page{Name: name + "." + section, Text: d.String()}
}

// section is where the manual describes commands of users.
const section = "1"

// nameOf returns the name of the page of a command.
func nameOf(cmd *cobra.Command) string {
	return strings.ReplaceAll(cmd.CommandPath(), " ", "-")
}

// commands lists the commands below one.
func (d *document) commands(below *cobra.Command) {
	d.macro("SH", "COMMANDS")
	for _, cmd := range below.Commands() {
		if cmd.IsAvailableCommand() && cmd.Name() != "help" {
			d.item(reference(cmd), cmd.Short)
		}
	}
}

// flags describes flags below a heading, in the groups of the help text.
func (d *document) flags(heading string, all *pflag.FlagSet) {
	if !all.HasAvailableFlags() {
		return
	}
	d.macro("SH", heading)
	for _, group := range append([]string{""}, help.Groups()...) {
		flags := help.InGroup(all, group)
		if group != "" && flags.HasAvailableFlags() {
			d.macro("SS", group)
		}
		flags.VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" {
				d.item(described(f))
			}
		})
	}
}

// described returns a flag as its help text writes it, and what it does.
func described(f *pflag.Flag) (tag, usage string) {
	one := pflag.NewFlagSet("", pflag.ContinueOnError)
	one.AddFlag(f)
	tag, usage, _ = strings.Cut(strings.TrimSpace(one.FlagUsages()), "   ")
	flag, value, _ := strings.Cut(tag, "--"+f.Name)
	return `\fB` + escape(flag+"--"+f.Name) + `\fR` + valueName.ReplaceAllStringFunc(escape(value), func(s string) string { return `\fI` + s + `\fR` }), usage
}

// valueName matches the name of the value of a flag.
var valueName = regexp.MustCompile(`[A-Z][A-Z:=]*`)

// exitStatus lists the exit codes.
func (d *document) exitStatus() {
	d.macro("SH", "EXIT STATUS")
	for _, e := range help.ExitCodes() {
		d.item(`\fB`+e.Code+`\fR`, e.Meaning)
	}
}

// environment describes the variables that commands read, all of them on the main
// page.
func (d *document) environment(all bool) {
	d.macro("SH", "ENVIRONMENT")
	d.item(`\fBLOCKSTEP_\fIFLAG\fR`, "sets a flag that the command line does not: --some-flag is LOCKSTEP_SOME_FLAG. A flag that may be repeated takes one value a line.")
	if !all {
		return
	}
	for _, v := range [][2]string{
		{"XDG_STATE_HOME", "the directory below which commands have their state by default, in lockstep; default ~/.local/state"},
		{"HTTP_PROXY, HTTPS_PROXY, NO_PROXY", "the proxies for requests, unless --proxy names one"},
		{"NETRC", "the file that --netrc reads; default ~/.netrc"},
		{"AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL", "how buckets are reached (s3://BUCKET/PREFIX)"},
		{"NOTIFY_SOCKET", "where serve, hub and follow report to systemd that they accept requests; set by systemd"},
		{"SOURCE_DATE_EPOCH", "the date of the pages that lockstep man writes, in seconds since 1970"},
	} {
		d.item(`\fB`+escape(v[0])+`\fR`, v[1])
	}
}

// files lists the files of the packages.
func (d *document) files() {
	d.macro("SH", "FILES")
	for _, f := range [][2]string{
		{"/etc/lockstep/lockstep.yaml", "configuration of lockstep-serve.service"},
		{"/etc/lockstep/hub.env", "settings of lockstep-hub.service"},
		{"/etc/lockstep/mirrors/NAME.env", "SOURCE, DEST and settings of lockstep-follow@NAME.service and lockstep-sync@NAME.service"},
		{"/var/lib/lockstep", "state of the services, and the mirrors that have no DEST of their own"},
		{"DEST/.lockstep", "state of a mirror"},
	} {
		d.item(`\fI`+escape(f[0])+`\fR`, f[1])
	}
}

// examples shows command lines as they are typed.
func (d *document) examples(text string) {
	if text == "" {
		return
	}
	d.macro("SH", "EXAMPLES")
	d.macro("nf")
	for line := range strings.SplitSeq(text, "\n") {
		d.line(escape(strings.TrimPrefix(line, "  ")))
	}
	d.macro("fi")
}

// seeAlso refers to the other pages.
func (d *document) seeAlso(cmd *cobra.Command) {
	d.macro("SH", "SEE ALSO")
	refs := []string{reference(cmd.Root())}
	for _, other := range cmd.Root().Commands() {
		if other.IsAvailableCommand() && other.Name() != "help" {
			refs = append(refs, reference(other))
		}
	}
	own := reference(cmd)
	var others []string
	for _, r := range refs {
		if r != own {
			others = append(others, r)
		}
	}
	d.line(strings.Join(others, ",\n"))
}

// reference names the page of a command, as lockstep-sync(1).
func reference(cmd *cobra.Command) string {
	return `\fB` + escape(nameOf(cmd)) + `\fR(` + section + `)`
}
