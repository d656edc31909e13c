package site

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lockstep/catalog"
	"lockstep/resourcesync"
)

// The catalog identifies a set by the URI of its Capability List, which changes
// with the base URL. A directory can be scanned again; what applications
// reported, or what was read from a stream, would never be sent again. So we
// record the URI of each set, and when it changes move the set's resources to
// the new one.

// setsFile is where that is remembered, in the state directory: a JSON object of
// names of sets and URIs.
const setsFile = "sets.json"

// adoptBatch is how many resources are moved at once.
const adoptBatch = 1000

// adopt moves to their new URIs what sets held under old ones.
func (s *Site) adopt(ctx context.Context) error {
	path := filepath.Join(s.opts.State, setsFile)
	known := map[string]string{}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &known)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read %s: %w", path, err)
	}
	changed := false
	for _, set := range s.sets {
		old := known[set.name]
		if old == set.list {
			continue
		}
		if old != "" && set.from.Kind.Away {
			_, versions := s.versions.marks[old]
			n, err := takeOver(ctx, s.db.Catalog(), old, set.list, versions)
			if err != nil {
				return fmt.Errorf("take over what set %s held as %s: %w", set.name, old, err)
			}
			s.log.InfoContext(ctx, "took over a set from another base URL", slog.String("set", set.name), slog.Int("entries", n))
		}
		known[set.name], changed = set.list, true
	}
	if !changed {
		return nil
	}
	if text, err = json.MarshalIndent(known, "", "\t"); err == nil {
		err = writeDurably(path, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// takeOver makes the set called to hold what the one called from holds, and
// returns how many resources that took. versions: it kept some, to which its links
// lead. It may be repeated.
func takeOver(ctx context.Context, cat catalog.Catalog, from, to string, versions bool) (n int, err error) {
	next, stop := iter.Pull2(cat.Resources(ctx, to, catalog.Range{}))
	defer stop()
	have, err, more := next()
	var batch []catalog.Update
	put := func(u catalog.Update) error {
		n++
		if batch = append(batch, u); len(batch) < adoptBatch {
			return nil
		}
		_, err := cat.Apply(ctx, to, batch)
		batch = nil // the catalog may keep it
		return err
	}
	gone := func(before string) error { // what to holds up to there and from does not
		for err == nil && more && (before == "" || have.URI < before) {
			if err := put(catalog.Update{Record: catalog.Record{URI: have.URI}, Deleted: true}); err != nil {
				return err
			}
			have, err, more = next()
		}
		if err == nil && more && have.URI == before {
			have, err, more = next()
		}
		return err
	}
	for r, err := range cat.Resources(ctx, from, catalog.Range{}) {
		if err == nil {
			err = gone(r.URI)
		}
		if err == nil {
			// Patches belong to changes that are history; our versions to another base URL.
			r.Links = slices.DeleteFunc(r.Links, func(l resourcesync.Link) bool {
				return l.Rel == resourcesync.RelPatch || versions && l.Rel == resourcesync.RelMemento
			})
			err = put(catalog.Update{Record: r})
		}
		if err != nil {
			return n, err
		}
	}
	if err := gone(""); err != nil {
		return n, err
	}
	if len(batch) > 0 {
		_, err = cat.Apply(ctx, to, batch)
	}
	return n, err
}

// writeDurably replaces a small file atomically: after a crash it has the new
// content or the old one.
func writeDurably(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+strings.TrimPrefix(filepath.Base(path), ".")+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error says more
	}
	return err
}
