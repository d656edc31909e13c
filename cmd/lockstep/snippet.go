package main

import (
	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/cmd/lockstep/internal/webservers"
)

// snippetOptions are the flags of snippet.
type snippetOptions struct {
	result *term.Options
	webservers.Publication
}

func newSnippet(io term.IO, out *term.Options) *cobra.Command {
	o := &snippetOptions{result: out}
	cmd := &cobra.Command{
		Use:   "snippet nginx|apache|caddy --out OUT --base-url URL [flags]",
		Short: "Print how to configure a web server for published documents",
		Long: `Print the part of a web server's configuration that serves the documents publish
writes to OUT: with their media types and cache headers, compressed variants, the
well-known address at the root of the host, and headers that lead from every
resource to the documents of its set. The comments in it say where it goes.

Give the same flags or the same configuration file as to publish.`,
		Example: `  lockstep snippet nginx --out /var/www --base-url https://data.example.org/
  lockstep snippet apache --config lockstep.yaml >/etc/apache2/lockstep.conf`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var file config.File
			if o.Config != "" {
				var err error
				if file, err = config.Read(o.Config); err != nil {
					return err
				}
				if err := config.FlagsFromFile(cmd.Flags(), o.Config, file.FlagValues()); err != nil {
					return err
				}
			}
			return runSnippet(o, args[0], file.Sets, io)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Out, "out", "", "the directory `OUT` publish writes the documents to")
	flags.StringVar(&o.BaseURL, "base-url", "", "the `URL` below which the web server serves the documents, and the files")
	flags.StringVar(&o.Config, "config", "", "read configuration from `FILE` (YAML); flags overrule it")
	flags.StringVar(&o.URI, "uri", "", "the `URL` that the URIs of the resources begin with, if it is not the base URL")
	flags.StringArrayVar(&o.Hubs, "hub", nil, "announce the hub at `URL` at the topic (repeatable)")
	flags.BoolVar(&o.Gzip, "gzip", false, "there are compressed variants (seen by itself once they are there)")
	return cmd
}

// runSnippet prints the snippet for one web server.
func runSnippet(o *snippetOptions, name string, sets []config.Set, io term.IO) error {
	text, err := webservers.Snippet(name, &o.Publication, sets)
	if err != nil {
		return err
	}
	if o.result.JSON {
		return io.PrintJSON(map[string]string{"server": name, "snippet": text})
	}
	io.Printf("%s", text)
	return nil
}
