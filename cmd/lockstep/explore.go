package main

import (
	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/explorer"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/garbage"
)

func newExplore(io term.IO, out *term.Options) *cobra.Command {
	o := &explorer.Options{Out: out}
	cmd := &cobra.Command{
		Use:   "explore [ADDRESS] [flags]",
		Short: "Show what is at ADDRESS, in the browser, as a tree or as JSON",
		Long: `Show what is at ADDRESS: a ResourceSync Source, a Sitemap, a feed of Atom-PMH, an
OAI-PMH repository, a package of a dump, the directory of a mirror, or a document in
a file. What the command prints is the address of pages for the browser: sets and
capabilities, figures and charts, all entries with search and filters, each resource
with its links, history and a preview, packages, and the XML of documents with what
the validator finds. A Source can be compared with a mirror, or at two instants.

The pages are served at a loopback address only, to one browser: the printed address
has a token that is exchanged for a cookie. Of large Sources only what is looked at is
read. Resources are requested when the user asks for them, and never by opening a
page that names them.

Without a browser, --tree prints a tree and --json one JSON object.`,
		Example: `  lockstep explore https://example.org/
  lockstep explore https://example.org/ --mirror mirror
  lockstep explore resourcedump.zip
  lockstep explore mirror --tree
  lockstep explore https://example.org/sitemap.xml --json --all`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.Address = args[0]
			}
			garbage.TuneSource()
			return explorer.Run(cmd.Context(), o, io)
		},
	}
	o.Declare(cmd.Flags())
	return cmd
}
