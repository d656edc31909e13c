// Package mapping runs the command that prints which file of a mirror belongs to a URI, or
// the reverse: by the rules for names, or as a mirror has recorded them.
package mapping

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"lockstep/bridge"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination/filename"
	"lockstep/destination/journal"
	"lockstep/destination/report"
	"lockstep/internal/fetch"
)

// Options are the arguments and flags of map.
type Options struct {
	Args     []string // URIs, and paths below the mirror
	Out      *term.Options
	Source   string
	Mirror   string // whose names are read; "" if they follow from the rules
	Maps     []string
	Portable bool
}

// Run prints the other side of each argument.
func Run(ctx context.Context, o *Options, io term.IO) (err error) {
	maps, err := mirror.ParseMaps(o.Maps)
	if err != nil {
		return err
	}
	mapOne := func(arg string) (line, error) { return o.mapOne(arg, maps) }
	if o.Mirror != "" {
		if o.Source != "" || len(maps) > 0 || o.Portable {
			return term.Usagef("--mirror excludes --source, --map and --portable: the mirror has recorded its names")
		}
		rows, oerr := mirror.OpenRows(o.Mirror)
		if oerr != nil {
			return oerr
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		mapOne = func(arg string) (line, error) { return mapRecorded(ctx, rows, arg) }
	}
	var all []line
	for _, arg := range o.Args {
		m, err := mapOne(arg)
		if err != nil {
			return err
		}
		all = append(all, m)
		switch {
		case o.Out.JSON:
		case strings.Contains(arg, "://"):
			_, _ = fmt.Fprintln(io.Out, m.Path) // whole: programs read it
		default:
			_, _ = fmt.Fprintln(io.Out, m.URI) // likewise
		}
	}
	if o.Out.JSON {
		return io.PrintJSON(map[string]any{"mappings": all})
	}
	return nil
}

// A line is what map prints of one argument.
type line struct {
	URI  string `json:"uri"`
	Path string `json:"path"`
	*held
}

// held is what a mirror records of a resource.
type held struct {
	Length int64             `json:"length"`         // of the file
	Hash   string            `json:"hash,omitempty"` // of the file
	Type   string            `json:"type,omitempty"`
	Links  []report.LinkLine `json:"links,omitempty"`
	Stated any               `json:"stated,omitempty"` // what the Source states of the content
}

// mapRecorded maps one argument as the mirror has recorded it.
func mapRecorded(ctx context.Context, rows *mirror.Rows, arg string) (line, error) {
	var h journal.Held
	var err error
	if strings.Contains(arg, "://") {
		h, err = rows.ByURI(ctx, fetch.WithoutUser(arg))
	} else {
		h, err = rows.ByPath(ctx, filepath.ToSlash(strings.TrimPrefix(arg, "./")))
	}
	if err != nil {
		return line{}, err
	}
	return line{h.URI, h.Path, &held{h.Length, h.Hashes.String(), h.Type, report.LinkLines(h.Links), report.StatedLine(h.Stated)}}, nil
}

// mapOne maps one argument.
func (o *Options) mapOne(arg string, maps []filename.Map) (line, error) {
	source, isURI := o.Source, strings.Contains(arg, "://")
	if source == "" {
		if !isURI {
			return line{}, term.Usage(errors.New(fetch.WithoutUser(arg)+": a path belongs to a URI of some Source"), "say which: --source https://example.org/")
		}
		source = arg
	}
	if f, ok := mirror.ParseForeign(source); ok {
		source, maps = f.URI, slices.Concat(maps, bridge.Maps(f))
	}
	origin, err := originOf(fetch.WithoutUser(source))
	if err != nil {
		return line{}, err
	}
	p, err := filename.New(filename.Options{Origin: origin, Portable: o.Portable, Map: maps})
	if err != nil {
		return line{}, term.Usage(err, "")
	}
	arg = fetch.WithoutUser(arg)
	m := line{URI: arg, Path: arg}
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
	u, err := url.Parse(scheme + "://" + rest)
	web := scheme == "http" || scheme == "https"
	if err != nil || scheme == "" || u.Hostname() == "" || web && !term.IsURL(u.String()) {
		return "", term.Usagef("%q is no address of a Source", address)
	}
	return scheme + "://" + rest, nil
}
