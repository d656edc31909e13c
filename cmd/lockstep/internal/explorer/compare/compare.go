// Package compare compares a Source with a mirror, and a Source at two instants, for the
// explorer: as audit and diff do, with each difference as a row.
package compare

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockstep/blob"
	"lockstep/cmd/lockstep/internal/explorer/reading"
	"lockstep/cmd/lockstep/internal/explorer/spool"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/network"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/destination/filename"
	"lockstep/destination/journal"
	"lockstep/internal/mirrordir"
	"lockstep/storage/sqlite"
)

// A Comparer makes comparisons.
type Comparer struct {
	Network network.Options
	Out     *term.Options
	IO      term.IO
	Dir     string // for temporary files
}

// WithMirror compares a Source with the mirror in a directory. Files are read only if
// something shows that they were touched; nothing is changed.
func (c *Comparer) WithMirror(ctx context.Context, source, dir string, add func(*spool.Row) error) (reading.Result, error) {
	result := reading.Result{Title: "Differences between the Source and the mirror", Of: reading.Differences}
	var failed error
	sel := &mirror.Selection{Source: source, Dest: dir}
	do := destination.Options{Dest: dir, Logger: c.Out.Logger(c.IO), OnEvent: func(e destination.Event) {
		if e.Kind == destination.EventFinding && failed == nil {
			row := rowOf(&e.Finding)
			failed = add(&row)
		}
	}}
	d, closeMirror, err := c.open(ctx, sel, do)
	if err != nil {
		return result, explain(err, dir)
	}
	defer closeMirror()
	report, err := d.Audit(ctx, source, destination.AuditOptions{})
	if err == nil {
		err = failed
	}
	if err != nil {
		return result, explain(err, dir)
	}
	fact := func(name string, value string) {
		result.Facts = append(result.Facts, spool.Fact{Name: name, Value: value})
	}
	fact("resources at the Source", strconv.FormatInt(report.Resources, 10))
	for _, n := range []struct {
		name string
		n    int64
	}{{"missing", report.Missing}, {"stale", report.Stale}, {"corrupt", report.Corrupt}, {"extra", report.Extra}, {"foreign", report.Foreign}, {"unverifiable", report.Unverifiable}} {
		if n.n > 0 {
			fact(n.name, strconv.FormatInt(n.n, 10))
		}
	}
	for _, u := range report.Unproven {
		fact("not known to be complete", u.Reason)
	}
	return result, nil
}

// open opens a mirror for reading, also while another process changes it.
func (c *Comparer) open(ctx context.Context, sel *mirror.Selection, do destination.Options) (*destination.Destination, func(), error) {
	net := c.Network
	if mirror.IsBucket(sel.Dest) || !mirrordir.Exists(sel.Dest) {
		r, err := mirror.Open(ctx, "explore", sel, &net, do, true, c.IO)
		if err != nil {
			return nil, nil, err
		}
		return r.Dest, r.Close, nil
	}
	client, err := net.Client(sel.Source, c.IO.LookupEnv, do.Logger)
	if err != nil {
		return nil, nil, err
	}
	closers := []func(){client.Close}
	closeAll := func() {
		for _, f := range slices.Backward(closers) {
			f()
		}
	}
	d, err := c.openReader(sel.Dest, client, do, &closers)
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	return d, closeAll, nil
}

// openReader opens the mirror in a directory without its lock. What is stored meanwhile is in
// the directory for temporary files.
func (c *Comparer) openReader(dir string, client *destination.Client, do destination.Options, closers *[]func()) (*destination.Destination, error) {
	db, err := sqlite.OpenReader(filepath.Join(dir, filepath.FromSlash(destination.StateFile)))
	if err != nil {
		return nil, err
	}
	*closers = append(*closers, func() { _ = db.Close() }) // it was only read
	stores := [2]*blob.Dir{}
	for i, place := range []string{dir, c.Dir} {
		if stores[i], err = blob.NewDir(place, blob.DirOptions{}); err != nil {
			return nil, err
		}
		*closers = append(*closers, func() { _ = stores[i].Close() }) // likewise
	}
	do.Jobs, do.Scratch = c.Network.Jobs, stores[1]
	do.Portable = runtime.GOOS == "windows" || isDir(filepath.Join(dir, strings.ToUpper(filename.StateDir))) // it folds case
	mirrordir.Harvest(&do, "", client)
	return destination.New(stores[0], &readJournal{db.Journal(), db.Journal(), c.Dir}, client, do)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// A readJournal is the Journal of a mirror that is only read: what has to be sorted is
// stored elsewhere.
type readJournal struct {
	journal.Journal
	journal.FileLister
	dir string
}

// ScratchDir implements [journal.Scratcher].
func (j *readJournal) ScratchDir() (string, bool) { return j.dir, false }

// explain adds the hint to an error: a page has no other place for it.
func explain(err error, dir string) error {
	err = mirror.Explain(err, dir)
	if hint := term.HintOf(err); hint != "" {
		return fmt.Errorf("%w (%s)", err, hint)
	}
	return err
}

func rowOf(f *destination.Finding) spool.Row {
	row := spool.Row{URI: f.URI, Kind: string(f.Kind), Length: -1, Detail: spool.Detail{Path: f.Path, Facts: []spool.Fact{{Name: "cause", Value: f.Cause}}}}
	if row.URI == "" {
		row.URI = f.Path
	}
	fact := func(name, value string) {
		if value != "" {
			row.Detail.Facts = append(row.Detail.Facts, spool.Fact{Name: name, Value: value})
		}
	}
	for _, side := range []struct {
		name  string
		facts *destination.Facts
	}{{"at the Source", f.Expected}, {"in the mirror", f.Found}} {
		if side.facts == nil {
			continue
		}
		if side.facts.Length != nil {
			fact("length "+side.name, strconv.FormatInt(*side.facts.Length, 10))
		}
		fact("hash "+side.name, side.facts.Hash)
		if !side.facts.Lastmod.IsZero() {
			fact("last modified "+side.name, side.facts.Lastmod.UTC().Format(time.RFC3339))
		}
	}
	switch {
	case f.Expected != nil && !f.Expected.Lastmod.IsZero():
		row.Time = f.Expected.Lastmod
	case f.Found != nil && !f.Found.Lastmod.IsZero():
		row.Time = f.Found.Lastmod
	}
	if f.Expected != nil {
		row.Detail.Hash = f.Expected.Hash
		if f.Expected.Length != nil {
			row.Length = *f.Expected.Length
		}
	}
	fact("set", f.Set)
	return row
}

// Instants compares the states of a Source at two instants; a zero to is now.
func (c *Comparer) Instants(ctx context.Context, source string, from, to time.Time, add func(*spool.Row) error) (reading.Result, error) {
	result := reading.Result{Title: "Differences between two instants", Of: reading.Differences}
	log := c.Out.Logger(c.IO)
	client, err := c.Network.Client(source, c.IO.LookupEnv, log)
	if err != nil {
		return result, err
	}
	defer client.Close()
	d, err := destination.New(&blob.Mem{}, &journal.Mem{Scratch: c.Dir}, client, destination.Options{Logger: log, Jobs: c.Network.Jobs})
	if err != nil {
		return result, err
	}
	report, err := d.Diff(ctx, source, from, to, func(one destination.Difference) error {
		return add(&spool.Row{URI: one.URI, Kind: one.Change, Length: -1})
	})
	if err != nil {
		return result, explain(err, "")
	}
	result.Facts = []spool.Fact{
		{Name: "from", Value: report.From.Format(time.RFC3339Nano)}, {Name: "to", Value: report.To.Format(time.RFC3339Nano)},
		{Name: "unchanged", Value: strconv.FormatInt(report.Unchanged, 10)},
	}
	result.Warnings = report.Warnings
	return result, nil
}
