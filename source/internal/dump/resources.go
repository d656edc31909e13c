package dump

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source/internal/names"
)

// packingMemory bounds what is remembered of the resources in packages being
// made at a time, until each is packed: two packages of 50,000 with usual URIs.
const packingMemory = 50 << 20

// resources publishes a new Resource Dump if one is due.
func (d *update) resources(ctx context.Context) error {
	entry := names.Set(d.set.Name).ResourceDump()
	if d.set.Resource == nil {
		if d.state.Resources == nil && !d.there[entry] {
			return nil
		}
		return d.withdraw(ctx, entry, func() {
			old := d.state.Resources
			d.state.Resources = nil
			if old != nil {
				d.retire(old.names(), old)
			}
		})
	}
	b := &resourceBuild{update: d, key: d.docs.CapabilityList(d.set.Name)}
	defer d.dumps.begin(d.set.Name, time.Time{})
	d.dumps.begin(d.set.Name, d.docs.Now())
	due, err := b.due(ctx)
	if err != nil {
		return fmt.Errorf("read catalog: %w", err)
	}
	if !due {
		if d.there[entry] {
			return nil
		}
		return d.switchResources(ctx, d.state.Resources)
	}
	next, err := b.run(ctx)
	if err != nil {
		return fmt.Errorf("build resource dump: %w", err)
	}
	d.state.Next, d.state.Building = next, nil
	if err := d.save(ctx); err != nil { // step 3 of Publish
		return err
	}
	if err := d.switchResources(ctx, next); err != nil {
		return err
	}
	d.report.Dump = true
	d.docs.Log.InfoContext(ctx, "published resource dump", slog.String("set", d.set.Name), slog.Int("packages", len(next.Packages)),
		slog.Int("reused", d.report.Reused), slog.Int64("bytes", d.report.Bytes))
	return nil
}

// switchResources takes steps 4 to 6 of Publish.
func (d *update) switchResources(ctx context.Context, next *resourceState) error {
	if err := d.archiveDump(ctx, next); err != nil {
		return err
	}
	entry, err := d.resourceEntry(ctx, next, names.Set(d.set.Name).ResourceDump())
	if err != nil {
		return err
	}
	if err := d.put(ctx, entry); err != nil {
		return err
	}
	old := d.state.Resources
	d.state.Resources, d.state.Next = next, nil
	if old != nil {
		d.retire(old.names(), old)
	}
	return d.save(ctx)
}

// resourceEntry writes the entry document of a Resource Dump, or the copy of
// it: itself, or the index over its parts (RS-RDI-01).
func (d *update) resourceEntry(ctx context.Context, st *resourceState, name string) (blob.Writer, error) {
	h := d.resourceHeader(st)
	if len(st.Lists) == 0 {
		return d.docs.WriteDocument(ctx, name, h, d.state.Stamp, d.dumps.packageEntries(st.Packages))
	}
	var index []resourcesync.Entry
	for _, list := range st.Lists {
		index = append(index, resourcesync.Entry{Loc: d.docs.Base.URI(list), Metadata: resourcesync.Metadata{At: h.At}}) // RS-RLI-03
	}
	h.Index = true
	return d.docs.WriteDocument(ctx, name, h, d.state.Stamp, index)
}

// resourceParts cuts a Resource Dump into parts, if one document cannot
// name its packages, and commits them.
func (d *update) resourceParts(ctx context.Context, st *resourceState) error {
	per := entryLimit(d.docs)
	if len(st.Packages) <= per {
		return nil
	}
	h := d.resourceHeader(st)
	index := names.Set(d.set.Name).ResourceDump()
	if st.Copy != "" {
		index = st.Copy // RA-AMB-08
	}
	h.Links = append(h.Links, resourcesync.Link{Rel: resourcesync.RelIndex, Href: d.docs.Base.URI(index)}) // RS-RD-01
	var parts []blob.Writer
	defer func() { discard(parts) }() // does nothing after Commit
	for packages := range slices.Chunk(st.Packages, per) {
		name := names.Dumps(d.set.Name).ResourcePart(st.Gen, len(parts)+1)
		w, err := d.docs.WriteDocument(ctx, name, h, d.state.Stamp, d.dumps.packageEntries(packages))
		if err != nil {
			return err
		}
		parts = append(parts, w)
		st.Lists = append(st.Lists, name)
	}
	return d.docs.Commit(ctx, parts...)
}

func (d *update) resourceHeader(st *resourceState) resourcesync.Header {
	h := d.docs.Header(d.set.Name, resourcesync.ResourceDump)
	h.At = resourcesync.NewDatetime(st.At)
	if d.snapshots != nil {
		h.Links = append(h.Links, d.docs.ArchivesLink(d.set.Name, resourcesync.ResourceDump))
	}
	return h
}

// resourceCopy commits what the archive is to name: no document names it yet.
func (d *update) resourceCopy(ctx context.Context, st *resourceState) error {
	if st.Copy == "" {
		return nil
	}
	w, err := d.resourceEntry(ctx, st, st.Copy)
	if err != nil {
		return err
	}
	defer w.Close() // does nothing after Commit
	return d.docs.Commit(ctx, w)
}

// packageEntries returns the entries of packages, without at: one that is
// reused is as true now as it was then.
func (s *Dumps) packageEntries(packages []resourcePackage) []resourcesync.Entry {
	entries := make([]resourcesync.Entry, len(packages))
	for i, p := range packages {
		entries[i] = s.packageEntry(p.Name, p.Metadata())
	}
	return entries
}

// A resourceBuild takes a Resource Dump off the catalog.
type resourceBuild struct {
	*update
	key    string // of the set in the catalog
	manner string
	status catalog.Status
	all    bool // no package can be reused
	mark   catalog.Mark
	gen    string
	number atomic.Int64 // of packages

	mu    sync.Mutex // guards what follows, and the report
	built []resourcePackage
}

// due says whether a new dump is due: there is none, or it is not what it
// should be, or there were changes and it is old enough.
func (b *resourceBuild) due(ctx context.Context) (bool, error) {
	st := b.state.Resources
	b.manner = b.set.Rules.Mark
	var err error
	if b.status, err = b.catalog.Status(ctx, b.key); err != nil {
		return false, err
	}
	if st == nil {
		b.all = true
		return true, nil
	}
	if b.all, err = wentBack(ctx, b.catalog, b.docs.CapabilityList(b.set.Name), st.Seq, st.At); err != nil {
		return false, err
	}
	b.back = b.all
	b.all = b.all || st.Manner != b.manner
	deviant := slices.ContainsFunc(st.Packages, func(p resourcePackage) bool { return p.Deviant > 0 })
	built := st.Built
	if built.IsZero() {
		built = st.At
	}
	old := isDue(built, b.docs.Now(), b.set.Resource.Every)
	return b.all || !b.have(st.names()) || b.snapshots != nil && st.Copy == "" || old && (deviant || b.status.Last != st.Seq), nil
}

// isDue reports whether what was built at a time is to be built again: after every, or
// if that time has not come, because the clock was ahead then.
func isDue(built, now time.Time, every time.Duration) bool {
	age := now.Sub(built)
	return age < 0 || age >= every
}

// wentBack reports whether the catalog is not, or no longer, the one in which
// every change of the set up to seq had happened by the instant at, and which
// keeps all later ones: it was restored from an older copy, or filled again.
func wentBack(ctx context.Context, c catalog.Catalog, set string, seq catalog.Seq, at time.Time) (bool, error) {
	status, err := c.Status(ctx, set)
	if err != nil || status.Last < seq || status.Kept.Seq > seq {
		return err == nil, err
	}
	if seq == status.Kept.Seq {
		return status.Kept.At.IsZero() || status.Kept.At.After(at), nil // a Mark was there before
	}
	for c, err := range c.Changes(ctx, set, seq-1) {
		return err == nil && (c.Seq != seq || c.EventTime.After(at)), err
	}
	return true, nil
}

// run makes the packages of a new dump, those that are new, and parts of its
// index; it commits both.
func (b *resourceBuild) run(ctx context.Context) (*resourceState, error) {
	var err error
	if b.mark, err = b.catalog.Mark(ctx, b.key); err != nil {
		return nil, err
	}
	runs, kept, err := b.stale(ctx)
	if err != nil {
		return nil, err
	}
	b.gen = b.generation()
	prefix := names.Dumps(b.set.Name).ResourcePrefix(b.gen)
	if err := b.announce(ctx, prefix); err != nil {
		return nil, err
	}
	next, err := b.packages(ctx, runs, kept)
	if err != nil {
		b.abandon(ctx, prefix)
		return nil, err
	}
	for _, name := range next.names() {
		b.there[name] = true
	}
	return next, nil
}

// generation names the dump. Should the clock stand still, a suffix keeps it
// apart from those before.
func (b *resourceBuild) generation() string {
	stamp := b.mark.At.UTC().Format(names.StampLayout)
	existing := b.known()
	maps.Copy(existing, b.there)
	for n, gen := 2, stamp; ; n++ {
		prefix, taken := names.Dumps(b.set.Name).ResourcePrefix(gen), existing[names.Dumps(b.set.Name).ResourceCopy(gen)]
		for name := range existing {
			taken = taken || strings.HasPrefix(name, prefix)
		}
		if !taken {
			return gen
		}
		gen = fmt.Sprintf("%s.%d", stamp, n)
	}
}

// stale returns the ranges whose resources must be packed again, and the
// packages that are as they were: those in whose range nothing has changed
// since the last dump.
func (b *resourceBuild) stale(ctx context.Context) (runs []catalog.Range, kept []resourcePackage, err error) {
	if b.all || len(b.state.Resources.Packages) == 0 {
		return []catalog.Range{{}}, nil, nil
	}
	old := b.state.Resources.Packages
	dirty := make([]bool, len(old))
	for i, p := range old {
		dirty[i] = p.Deviant > 0 || !b.have([]string{p.Name, names.Manifest(p.Name)})
	}
	for c, err := range b.catalog.Changes(ctx, b.key, b.state.Resources.Seq) {
		if err != nil {
			return nil, nil, err
		}
		after := sort.Search(len(old), func(i int) bool { return i > 0 && string(old[i].First) > c.URI })
		dirty[max(after-1, 0)] = true
	}
	for i := 0; i < len(old); i++ {
		if !dirty[i] {
			kept = append(kept, old[i])
			continue
		}
		r := catalog.Range{}
		if i > 0 {
			r.From = string(old[i].First)
		}
		for i+1 < len(old) && dirty[i+1] {
			i++
		}
		if i+1 < len(old) {
			r.To = string(old[i+1].First)
		}
		runs = append(runs, r)
	}
	return runs, kept, nil
}

// packages makes packages of the runs, several at a time, and returns the dump
// that consists of these and the kept ones.
func (b *resourceBuild) packages(ctx context.Context, runs []catalog.Range, kept []resourcePackage) (*resourceState, error) {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(b.dumps.opts.Workers + 1)
	room := semaphore.NewWeighted(packingMemory)
	g.Go(func() error {
		for _, run := range runs {
			cuts, err := b.cut(gctx, run)
			if err != nil {
				return err
			}
			for _, c := range cuts {
				weight := min(c.memory, packingMemory)
				if err := room.Acquire(gctx, weight); err != nil {
					return err
				}
				number := b.number.Add(1)
				g.Go(func() error {
					defer room.Release(weight)
					return b.pack(gctx, c, number)
				})
			}
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	b.report.Reused = len(kept)
	next := &resourceState{Gen: b.gen, At: b.mark.At, Built: b.docs.Now(), Seq: b.mark.Seq, Manner: b.manner, Packages: append(kept, b.built...)}
	if b.snapshots != nil {
		next.Copy = names.Dumps(b.set.Name).ResourceCopy(b.gen)
	}
	sort.SliceStable(next.Packages, func(i, j int) bool { return string(next.Packages[i].First) < string(next.Packages[j].First) })
	if err := b.resourceParts(ctx, next); err != nil {
		return nil, err
	}
	return next, b.resourceCopy(ctx, next)
}
