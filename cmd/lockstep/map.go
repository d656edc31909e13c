package main

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/bridge"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination/filename"
	"lockstep/internal/fetch"
)

// mapOptions are the flags of map.
type mapOptions struct {
	out      *term.Options
	source   string
	maps     []string
	portable bool
}

func newMap(io term.IO, out *term.Options) *cobra.Command {
	o := &mapOptions{out: out}
	cmd := &cobra.Command{
		Use:   "map URI|PATH... [flags]",
		Short: "Print which file of a mirror belongs to a URI, or the reverse",
		Long: `Print for each URI the file it gets in a mirror, and for each path below DEST the
URI it belongs to. The mapping is one-to-one and needs no network.

Where a file and a directory of one name meet, the mirror marks the later one;
the path given for a URI is the one it gets when nothing is in its way.

Records of an OAI-PMH repository are in files that are called by their
identifiers: for a mirror of one give --source oai-pmh:URL.`,
		Example: `  lockstep map https://example.org/a%20file.txt
  lockstep map --source https://example.org/ 'a file.txt'
  lockstep map --source oai-pmh:https://example.org/oai oai:example.org:7.xml`,
		Args: arguments(1, 1<<20),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runMap(cmd.Context(), o, args, io)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.source, "source", "", "the mirror is one of the Source at `URL` (default: that of the URI itself)")
	flags.StringArrayVar(&o.maps, "map", nil, "the mirror was made with --map `PREFIX=DIR` (repeatable)")
	flags.BoolVar(&o.portable, "portable", false, "the mirror is on a file system that folds case or forbids characters")
	return cmd
}

// A mapping is one line of what map prints.
type mapping struct {
	URI  string `json:"uri"`
	Path string `json:"path"`
}

// runMap prints the other side of each argument.
func runMap(_ context.Context, o *mapOptions, args []string, io term.IO) error {
	maps, err := mirror.ParseMaps(o.maps)
	if err != nil {
		return err
	}
	var all []mapping
	for _, arg := range args {
		m, err := o.mapOne(arg, maps)
		if err != nil {
			return err
		}
		all = append(all, m)
		switch {
		case o.out.JSON:
		case strings.Contains(arg, "://"):
			io.Printf("%s\n", m.Path)
		default:
			io.Printf("%s\n", m.URI)
		}
	}
	if o.out.JSON {
		return io.PrintJSON(map[string]any{"mappings": all})
	}
	return nil
}

// mapOne maps one argument.
func (o *mapOptions) mapOne(arg string, maps []filename.Map) (mapping, error) {
	source, isURI := o.source, strings.Contains(arg, "://")
	if source == "" {
		if !isURI {
			return mapping{}, term.Usage(errors.New(arg+": a path belongs to a URI of some Source"), "say which: --source https://example.org/")
		}
		source = arg
	}
	if f, ok := mirror.ParseForeign(source); ok {
		source, maps = f.URI, slices.Concat(maps, bridge.Maps(f))
	}
	origin, err := originOf(fetch.WithoutUser(source))
	if err != nil {
		return mapping{}, err
	}
	p, err := filename.New(filename.Options{Origin: origin, Portable: o.portable, Map: maps})
	if err != nil {
		return mapping{}, term.Usage(err, "")
	}
	arg = fetch.WithoutUser(arg)
	m := mapping{URI: arg, Path: arg}
	if isURI {
		m.Path, err = p.Path(arg)
	} else {
		m.Path = filepath.ToSlash(strings.TrimPrefix(arg, "./"))
		m.URI, err = p.URI(m.Path)
	}
	return m, err
}

// originOf returns the scheme and authority of an address, spelled as in the
// address.
func originOf(address string) (string, error) {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		scheme, rest = "https", address // as people write addresses
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	if scheme == "" || rest == "" {
		return "", term.Usagef("%q is no address of a Source", address)
	}
	return scheme + "://" + rest, nil
}
