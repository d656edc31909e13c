package main

import (
	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/alert"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/mirrors"
	"lockstep/cmd/lockstep/internal/syncing"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/garbage"
)

func newSync(io term.IO, out *term.Options) *cobra.Command {
	o, many := &syncing.Flags{Out: out}, &mirrors.Flags{}
	var alerts alert.Flags
	watch := func(cmd *cobra.Command, r alert.Run, run func(term.IO, *alert.Outcome) error) error {
		if o.DryRun {
			return run(io, &alert.Outcome{})
		}
		r.Roots = o.Network.Certificates
		return alerts.Watch(cmd.Context(), r, io, exitCode, run)
	}
	cmd := &cobra.Command{
		Use:   "sync SOURCE DEST [flags]",
		Short: "Bring DEST into step with SOURCE once, then exit",
		Long: `Bring DEST into step with SOURCE: everything the first time, then only changes.
Every file is verified before it gets its final name. The next run continues an
interrupted one.

SOURCE is any address of a Source: a site, one of its pages, its Source
Description, a Capability List, a Resource List or Dump, a Change List or Dump, a
plain Sitemap, or a local file that is one of these.

It can also be an Atom-PMH feed or an OAI-PMH repository, which is harvested. If
its address does not show which, write atom-pmh:URL or
oai-pmh:URL?metadataPrefix=PREFIX&set=SET (by default oai_dc, and all sets).

DEST is a directory, or a bucket (s3://BUCKET/PREFIX) with --state DIR for its
state.

With --config FILE [NAME...], all mirrors that FILE describes are brought into step,
or those that are named, several at a time. Each has a result of its own, and one that fails does
not delay the others: exit code 0 if all are in step, 4 if those that are not were
all refused for safety, 1 if any failed.`,
		Example: `  lockstep sync https://example.org/ mirror
  lockstep sync https://example.org/sitemap.xml mirror --include '*.pdf'
  lockstep sync example.org mirror --dry-run
  lockstep sync example.org mirror --exec ./index-changes
  lockstep sync https://example.org/atom.xml mirror --prefer application/rdf+xml
  lockstep sync 'oai-pmh:https://example.org/oai?metadataPrefix=oai_dc' records
  lockstep sync example.org s3://bucket/mirror --state ~/mirror-state
  lockstep sync example.org then --at 2026-05-01T12:00:00Z
  lockstep sync --config mirrors.yaml
  lockstep sync --config mirrors.yaml papers images`,
		Args: oneOrMany(many),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := many.Check(cmd.Flags(), io.LookupEnv); err != nil {
				return err
			}
			if many.Are() {
				if err := o.RefuseSharedConfig(); err != nil {
					return err
				}
				return watch(cmd, alert.Run{Command: cmd.Name(), Source: many.Config()}, func(io term.IO, out *alert.Outcome) error {
					return mirrors.Sync(cmd.Context(), many, o, cmd.Flags(), args, io, out)
				})
			}
			o.Source, o.Dest = args[0], args[1]
			if err := mirror.RefuseEmptyInstant(cmd.Flags(), "at"); err != nil {
				return err
			}
			garbage.TuneCopying()
			return watch(cmd, alert.Run{Command: cmd.Name(), Source: o.Source, Dest: o.Dest}, func(io term.IO, out *alert.Outcome) error {
				return syncing.Run(cmd.Context(), o, io, out)
			})
		},
	}
	o.Declare(cmd.Flags())
	o.DeclareOnce(cmd.Flags())
	o.DeclareShared(cmd.Flags())
	many.Declare(cmd.Flags())
	alerts.DeclareRun(cmd.Flags())
	return cmd
}

// oneOrMany returns a check that the arguments are SOURCE and DEST, or names of mirrors of
// a configuration file.
func oneOrMany(many *mirrors.Flags) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if many.Note(cmd.Flags()) {
			return nil
		}
		return arguments(2, 2)(cmd, args)
	}
}
