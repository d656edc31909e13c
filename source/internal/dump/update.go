// Package dump builds and publishes the Resource Dumps and Change Dumps of a Source, and keeps
// their state.
package dump

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source/internal/archive"
	"lockstep/source/internal/document"
	"lockstep/source/internal/names"
	"lockstep/source/internal/pack"
)

// trimShare is which share of the time changes are kept a dump may reach back too
// far: documents of the archive get many packages each.
const trimShare = 8

// A Report says what a publication of dumps did.
type Report struct {
	Set      string
	Dump     bool  // a new Resource Dump was published
	Packages int   // of the Resource Dump
	Reused   int   // of those, taken over as they were from the one before
	Deviant  int   // resources in new packages that were not as catalogued, or gone; each is logged
	Added    int   // packages added to the Change Dump
	Changes  int64 // in those
	Bytes    int64 // of packages written
	Removed  int   // blobs of older generations removed
	Elapsed  time.Duration
}

// An update is the dumps of one set on their way from one published state to
// the next.
type update struct {
	dumps    *Dumps
	docs     *document.Store
	catalog  catalog.Catalog
	archives *archive.Archives
	set      Set
	report   Report
	state    state   // what is published, and remembered once it is saved
	there    listing // of blobs of dumps
	written  bool
	back     bool // the catalog is not the one the Resource Dump was made from

	snapshots *archive.Draft  // of Resource Dumps; nil: there is none
	packed    *archive.Draft  // of Change Dumps; nil: there is none
	held      map[string]bool // blobs that stay for the sake of archives
	blind     bool            // others may have to
}

// Publish brings the dumps of one set in step with the catalog. One runs at a
// time.
//
// The order of writes, each step durable before the next begins:
//
//  1. the state, saying how names that no document gives yet will begin;
//  2. packages and copies of their manifests, under those names, then parts of
//     an index;
//  3. the state, saying what is about to be published;
//  4. the archive, then the entry document;
//  5. the Capability List, if it does not name that yet;
//  6. the state, saying that it is published, and what it replaced;
//  7. what was replaced more than the grace period ago is removed.
//
// Cut short anywhere, the entry document names only packages that are there
// (RS-IDX-06). A later run removes what step 2 has left, or goes on with step 4.
func (s *Dumps) Publish(ctx context.Context, set Set) (r Report, written bool, err error) {
	start := time.Now()
	d := &update{dumps: s, docs: s.opts.Docs, catalog: s.opts.Catalog, archives: s.opts.Archives, set: set, report: Report{Set: set.Name}, there: make(listing)}
	defer func() { d.report.Elapsed = time.Since(start); r, written = d.report, d.written }()
	if err := d.look(ctx); err != nil {
		return r, false, err
	}
	archives := set.Archive(resourcesync.ResourceDump) != nil || set.Archive(resourcesync.ChangeDump) != nil
	if set.Resource == nil && set.Change == nil && len(d.there) == 0 && !archives {
		return r, false, nil
	}
	if err := d.openArchives(ctx); err != nil {
		return r, false, err
	}
	errs := []error{d.resume(ctx)}
	if errs[0] == nil {
		errs = append(errs, d.resources(ctx), d.changes(ctx), d.saveArchives(ctx), d.nameArchives(ctx), d.tidy(ctx))
	}
	if st := d.state.Resources; st != nil {
		d.report.Packages = len(st.Packages)
	}
	return r, d.written, errors.Join(errs...)
}

// look finds out what is published.
func (d *update) look(ctx context.Context) error {
	st, err := d.dumps.load(ctx, d.set.Name)
	if err != nil {
		return err
	}
	d.state = *st
	for info, err := range d.docs.List(ctx, names.DocumentsDir+d.set.Name+"/") {
		if err != nil {
			return err
		}
		if name := info.Name; names.Dumps(d.set.Name).IsPart(name) || name == names.Set(d.set.Name).ResourceDump() || name == names.Set(d.set.Name).ChangeDump() ||
			name == names.Set(d.set.Name).Archive(resourcesync.ResourceDump) || name == names.Set(d.set.Name).Archive(resourcesync.ChangeDump) {
			d.there.Add(info)
		}
	}
	return d.docs.Confirm(ctx, d.there, slices.Collect(maps.Keys(d.known()))...)
}

// A listing is the blobs that exist, by name.
type listing map[string]bool

// Known implements [document.Listing].
func (l listing) Known(name string) bool { return l[name] }

// Add implements [document.Listing].
func (l listing) Add(info blob.Info) { l[info.Name] = true }

// resume brings to an end what an earlier run has left unfinished.
func (d *update) resume(ctx context.Context) error {
	known := d.known()
	var left []string
	for name := range d.there {
		if d.state.unpublished(name) && !known[name] {
			left = append(left, name)
		}
	}
	if len(left) > 0 {
		if err := d.remove(ctx, left); err != nil {
			return err
		}
	}
	if next := d.state.Next; next != nil {
		if d.have(next.names()) {
			if err := d.switchResources(ctx, next); err != nil {
				return err
			}
		}
		d.state.Next = nil
	}
	if next := d.state.NextChanges; next != nil {
		if d.have(next.names()) {
			if err := d.switchChanges(ctx, next); err != nil {
				return err
			}
		}
		d.state.NextChanges = nil
	}
	return nil
}

// known returns all names the state has a word for.
func (d *update) known() map[string]bool {
	known := make(map[string]bool)
	maps.Copy(known, d.held)
	st := &d.state
	for _, docNames := range [][]string{st.Resources.names(), st.Next.names(), st.Changes.names(), st.NextChanges.names()} {
		for _, name := range docNames {
			known[name] = true
		}
	}
	for _, r := range st.Retired {
		known[r.Name] = true
	}
	return known
}

func (d *update) have(docNames []string) bool {
	for _, name := range docNames {
		if !d.there[name] {
			return false
		}
	}
	return true
}

func (d *update) remove(ctx context.Context, docNames []string) error {
	if err := d.docs.Remove(ctx, docNames...); err != nil {
		return fmt.Errorf("remove what dumps no longer need: %w", err)
	}
	for _, name := range docNames {
		delete(d.there, name)
	}
	return nil
}

// save makes the state what is remembered.
func (d *update) save(ctx context.Context) error {
	st := d.state
	st.Retired = append([]document.Retired(nil), st.Retired...)
	return d.dumps.save(ctx, d.set.Name, &st)
}

// announce takes steps 1 of Publish.
func (d *update) announce(ctx context.Context, prefix string) error {
	d.state.Building = []string{prefix}
	d.state.Stamp = d.docs.After(d.state.Stamp)
	return d.save(ctx)
}

// abandon removes what was begun by names with the prefix. What cannot be
// removed now, say because ctx has ended, is by the next run.
func (d *update) abandon(ctx context.Context, prefix string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTime)
	defer cancel()
	var docNames []string
	known := d.known()
	for info, err := range d.docs.List(ctx, prefix) {
		if err == nil && names.Dumps(d.set.Name).IsPart(info.Name) && !known[info.Name] {
			docNames = append(docNames, info.Name)
		}
	}
	_ = d.docs.Remove(ctx, docNames...) // see above
}

// abandonTime is what removing the packages of a dump that has failed may take.
const abandonTime = 30 * time.Second

// retire notes that names are not named any more, if nothing else names them.
// old is the Resource Dump they belonged to; nil: none.
func (d *update) retire(docNames []string, old *resourceState) {
	named := make(map[string]bool)
	for _, ns := range [][]string{d.state.Resources.names(), d.state.Changes.names()} {
		for _, name := range ns {
			named[name] = true
		}
	}
	for _, name := range docNames {
		if !named[name] && d.there[name] {
			r := document.Retired{Name: name, Gone: d.docs.Now()}
			if old != nil {
				r.At, r.Seq = old.At, old.Seq
			}
			d.state.Retired = append(d.state.Retired, r)
		}
	}
}

// tidy removes what was replaced longer ago than it is to stay, and sees to
// it that what no state knows of will be.
func (d *update) tidy(ctx context.Context) error {
	if d.blind {
		return nil
	}
	known := d.known()
	var strangers []string
	for name := range d.there {
		if names.Dumps(d.set.Name).IsPart(name) && !known[name] {
			strangers = append(strangers, name)
		}
	}
	slices.Sort(strangers)
	d.retire(strangers, nil)
	var old []string
	var rest []document.Retired
	for _, r := range d.state.Retired {
		switch {
		case !d.there[r.Name]:
		case d.docs.Now().Sub(r.Gone) >= d.set.grace(d.dumps.opts.Grace):
			if !d.held[r.Name] {
				old = append(old, r.Name)
			}
		default:
			rest = append(rest, r)
		}
	}
	if len(old) > 0 {
		if err := d.remove(ctx, old); err != nil {
			return err
		}
		d.report.Removed = len(old)
	}
	if len(strangers) == 0 && len(rest) == len(d.state.Retired) && len(d.state.Building) == 0 {
		return nil
	}
	d.state.Retired, d.state.Building = rest, nil
	return d.save(ctx)
}

// withdraw takes a dump back that is no longer to be offered: first out of the
// Capability List, then for itself; its packages stay for the grace period.
func (d *update) withdraw(ctx context.Context, name string, forget func()) error {
	if _, err := d.dumps.opts.NameDocuments(ctx, d.set.Name, name); err != nil {
		return err
	}
	if err := d.remove(ctx, []string{name}); err != nil {
		return err
	}
	if _, err := d.dumps.opts.NameDocuments(ctx, d.set.Name); err != nil { // a Publish in between has found it there
		return err
	}
	d.written = true
	forget()
	return d.save(ctx)
}

// put commits an entry document and has the Capability List name it.
func (d *update) put(ctx context.Context, entry blob.Writer) error {
	defer entry.Close() // does nothing after Commit
	if err := d.docs.Commit(ctx, entry); err != nil {
		return err
	}
	d.there[entry.Name()], d.written = true, true
	_, err := d.dumps.opts.NameDocuments(ctx, d.set.Name)
	return err
}

// entryLimit returns how many packages one document can name.
func entryLimit(docs *document.Store) int {
	// Twice an address, escaped at worst, and what is said of the package.
	entry := int64(12*(len(docs.Base.Prefix)+200) + 600)
	return int(max(1, min(int64(docs.MaxEntries), (docs.MaxBytes-entry)/entry)))
}

// packing returns the options of a package whose manifest begins with h.
func (s *Dumps) packing(set *Set, h resourcesync.Header, entries int, bytes int64) pack.Options {
	return pack.Options{
		Docs: s.opts.Docs, Set: set.Name, Describe: set.Rules.Describer(), Header: h, Entries: entries, Bytes: bytes,
		Workers: s.opts.Workers, Temp: s.opts.Temp,
		Open: func(ctx context.Context, it *pack.Item) (io.ReadCloser, error) {
			return set.Bitstream(ctx, &it.Change.Record)
		},
	}
}

// archived reports whether documents that have the capability are archived.
func (d *update) archived(c resourcesync.Capability) bool { return d.set.Archive(c) != nil }

// packageEntry returns the entry of a package in a dump, with a link to the
// copy of its manifest (RS-RD-04, RS-CD-04).
func (s *Dumps) packageEntry(name string, m resourcesync.Metadata) resourcesync.Entry {
	return resourcesync.Entry{Loc: s.opts.Docs.Base.URI(name), Metadata: m, Links: []resourcesync.Link{
		{Rel: resourcesync.RelContents, Href: s.opts.Docs.Base.URI(names.Manifest(name)), Type: s.opts.ManifestType},
	}}
}

func discard(ws []blob.Writer) {
	for _, w := range ws {
		_ = w.Close() // nothing of it is wanted
	}
}
