package main

import (
	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/syncing"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/garbage"
)

func newSync(io term.IO, out *term.Options) *cobra.Command {
	o := &syncing.Flags{Out: out}
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
state.`,
		Example: `  lockstep sync https://example.org/ mirror
  lockstep sync https://example.org/sitemap.xml mirror --include '*.pdf'
  lockstep sync example.org mirror --dry-run
  lockstep sync example.org mirror --exec ./index-changes
  lockstep sync https://example.org/atom.xml mirror --prefer application/rdf+xml
  lockstep sync 'oai-pmh:https://example.org/oai?metadataPrefix=oai_dc' records
  lockstep sync example.org s3://bucket/mirror --state ~/mirror-state
  lockstep sync example.org then --at 2026-05-01T12:00:00Z`,
		Args: arguments(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Source, o.Dest = args[0], args[1]
			if err := mirror.RefuseEmptyInstant(cmd.Flags(), "at"); err != nil {
				return err
			}
			garbage.TuneCopying()
			return syncing.Run(cmd.Context(), o, io)
		},
	}
	o.Declare(cmd.Flags())
	o.DeclareOnce(cmd.Flags())
	return cmd
}
