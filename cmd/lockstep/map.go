package main

import (
	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/mapping"
	"lockstep/cmd/lockstep/internal/term"
)

func newMap(io term.IO, out *term.Options) *cobra.Command {
	o := &mapping.Options{Out: out}
	cmd := &cobra.Command{
		Use:   "map URI|PATH... [flags]",
		Short: "Print which file of a mirror belongs to a URI, or the reverse",
		Long: `Print for each URI the file it gets in a mirror, and for each path below DEST the
URI it belongs to. The mapping is one-to-one and needs no network.

Where a file and a directory of one name meet, the mirror marks the later one;
the path given for a URI is the one it gets when nothing is in its way.

With --mirror, the names are those that the mirror recorded, marks included. With
--json, each mapping then also contains what the mirror has (length, hash) and what
the Source states: media type, links to other resources, and lastmod, length and
hash in its own words.

Records of an OAI-PMH repository are in files that are called by their
identifiers: for a mirror of one give --source oai-pmh:URL.`,
		Example: `  lockstep map https://example.org/a%20file.txt
  lockstep map --source https://example.org/ 'a file.txt'
  lockstep map --source oai-pmh:https://example.org/oai oai:example.org:7.xml
  lockstep map --mirror mirror --json https://example.org/paper.pdf`,
		Args: arguments(1, 1<<20),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Args = args
			return mapping.Run(cmd.Context(), o, io)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Source, "source", "", "the mirror is one of the Source at `URL` (default: that of the URI itself)")
	flags.StringVar(&o.Mirror, "mirror", "", "read the names from the mirror in `DIR` (of a mirror in a bucket: the directory of its state)")
	flags.StringArrayVar(&o.Maps, "map", nil, "the mirror was made with --map `PREFIX=DIR` (repeatable)")
	flags.BoolVar(&o.Portable, "portable", false, "the mirror is on a file system that folds case or forbids characters")
	return cmd
}
