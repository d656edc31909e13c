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
	"lockstep/destination/journal"
	"lockstep/destination/report"
	"lockstep/internal/fetch"
)

// mapOptions are the flags of map.
type mapOptions struct {
	out      *term.Options
	source   string
	mirror   string
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
			return runMap(cmd.Context(), o, args, io)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.source, "source", "", "the mirror is one of the Source at `URL` (default: that of the URI itself)")
	flags.StringVar(&o.mirror, "mirror", "", "read the names from the mirror in `DIR` (of a mirror in a bucket: the directory of its state)")
	flags.StringArrayVar(&o.maps, "map", nil, "the mirror was made with --map `PREFIX=DIR` (repeatable)")
	flags.BoolVar(&o.portable, "portable", false, "the mirror is on a file system that folds case or forbids characters")
	return cmd
}

// A mapping is one line of what map prints.
type mapping struct {
	URI  string `json:"uri"`
	Path string `json:"path"`
	*heldJSON
}

// heldJSON is what a mirror records of a resource.
type heldJSON struct {
	Length int64             `json:"length"`         // of the file
	Hash   string            `json:"hash,omitempty"` // of the file
	Type   string            `json:"type,omitempty"`
	Links  []report.LinkLine `json:"links,omitempty"`
	Stated any               `json:"stated,omitempty"` // what the Source states of the content
}

// runMap prints the other side of each argument.
func runMap(ctx context.Context, o *mapOptions, args []string, io term.IO) (err error) {
	maps, err := mirror.ParseMaps(o.maps)
	if err != nil {
		return err
	}
	mapOne := func(arg string) (mapping, error) { return o.mapOne(arg, maps) }
	if o.mirror != "" {
		if o.source != "" || len(maps) > 0 || o.portable {
			return term.Usagef("--mirror excludes --source, --map and --portable: the mirror has recorded its names")
		}
		rows, oerr := mirror.OpenRows(o.mirror)
		if oerr != nil {
			return oerr
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		mapOne = func(arg string) (mapping, error) { return mapRecorded(ctx, rows, arg) }
	}
	var all []mapping
	for _, arg := range args {
		m, err := mapOne(arg)
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

// mapRecorded maps one argument as the mirror has recorded it.
func mapRecorded(ctx context.Context, rows *mirror.Rows, arg string) (mapping, error) {
	var h journal.Held
	var err error
	if strings.Contains(arg, "://") {
		h, err = rows.ByURI(ctx, fetch.WithoutUser(arg))
	} else {
		h, err = rows.ByPath(ctx, filepath.ToSlash(strings.TrimPrefix(arg, "./")))
	}
	if err != nil {
		return mapping{}, err
	}
	return mapping{h.URI, h.Path, &heldJSON{h.Length, h.Hashes.String(), h.Type, report.LinkLines(h.Links), report.StatedLine(h.Stated)}}, nil
}

// mapOne maps one argument.
func (o *mapOptions) mapOne(arg string, maps []filename.Map) (mapping, error) {
	source, isURI := o.source, strings.Contains(arg, "://")
	if source == "" {
		if !isURI {
			return mapping{}, term.Usage(errors.New(fetch.WithoutUser(arg)+": a path belongs to a URI of some Source"), "say which: --source https://example.org/")
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
