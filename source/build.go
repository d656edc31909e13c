package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source/internal/names"
)

// commitParts is how many parts are committed at once: few enough that a store
// of files does not run out of descriptors, many enough that it seldom waits
// for the disk.
const commitParts = 128

func defaultWorkers() int { return min(runtime.GOMAXPROCS(0), 8) }

// A document is one that is being written, and the blob it goes to.
type document struct {
	*resourcesync.Writer
	blob    blob.Writer
	max     int   // entries
	full    int64 // bytes
	before  int64 // bytes that are there already, see changeBuild.extend
	refused int64 // entries that no document can state
	log     *slog.Logger
}

// begin begins the document h under name. What was begun is either committed
// or discarded.
func (s *Source) begin(ctx context.Context, name string, h resourcesync.Header, mod time.Time) (*document, error) {
	return s.beginTo(ctx, name, h, mod, func(w io.Writer) io.Writer { return w })
}

// beginTo begins a document that goes to its blob through something else.
func (s *Source) beginTo(ctx context.Context, name string, h resourcesync.Header, mod time.Time, through func(io.Writer) io.Writer) (*document, error) {
	b, err := s.docs.Create(ctx, name)
	if err != nil {
		return nil, err
	}
	b.SetModTime(mod)
	w, err := resourcesync.NewWriter(through(b), h)
	if err != nil {
		_ = b.Close() // nothing was written
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &document{Writer: w, blob: b, max: s.opts.MaxEntries, full: s.opts.MaxBytes, log: s.opts.Logger}, nil
}

// add writes an entry, or returns resourcesync.ErrTooLarge. An entry the
// standard has no words for is left out and counted: one bad record must not
// keep all others from being published.
func (d *document) add(e *resourcesync.Entry) error {
	if d.Entries() >= d.max || d.before+d.Bytes() >= d.full {
		return resourcesync.ErrTooLarge
	}
	if d.before > 0 && d.before+d.Bytes()+atMost(e) > resourcesync.MaxBytes {
		return resourcesync.ErrTooLarge // the Writer does not know of those before
	}
	err := d.Write(e)
	if _, refused := errors.AsType[*resourcesync.RuleError](err); !refused {
		return err
	}
	plain := *e
	plain.Links = goodLinks(e.Links)
	retry := d.Write(&plain)
	if _, refused := errors.AsType[*resourcesync.RuleError](retry); refused {
		plain.Lastmod, plain.Type, plain.Encoding, plain.Hashes = resourcesync.Datetime{}, "", "", nil
		retry = d.Write(&plain)
	}
	if rule, refused := errors.AsType[*resourcesync.RuleError](retry); refused && rule.Rule == "RS-XML-09" {
		d.refused++
		retry = nil
	}
	if retry == nil {
		d.log.Warn("resource cannot be published as it is catalogued", slog.String("uri", e.Loc), slog.Any("err", err))
	}
	return retry
}

// atMost returns a size, in bytes, that an entry does not exceed.
func atMost(e *resourcesync.Entry) int64 {
	const rest, escaped = 1500, 6 // the attributes of bounded length; an escaped character
	n := rest + escaped*(len(e.Loc)+len(e.Type)+len(e.Encoding))
	for i := range e.Links {
		l := &e.Links[i]
		n += rest + escaped*(len(l.Rel)+len(l.Href)+len(l.Type)+len(l.Encoding))
	}
	return int64(n)
}

func (d *document) discard() { _ = d.blob.Close() } // nothing of it is wanted

// A listBuild takes a Resource List off the catalog.
type listBuild struct {
	*Source
	set     string
	mark    catalog.Mark
	gen     string
	past    bool   // lists have an archive
	copy    string // name under which the entry document stays as it is, for an archive; empty: it does not
	stamp   time.Time
	entries atomic.Int64
	refused atomic.Int64
	bytes   atomic.Int64
	number  atomic.Int64 // highest part number given out

	mu    sync.Mutex // guards what follows
	open  []blob.Writer
	names []string

	twin blob.Writer // of the copy
}

// run writes the list of all resources as of the mark (RS-RL-08): parts, which
// it commits, and the entry document, which it leaves to be committed last. The
// copy of that it commits as well: nobody knows of it yet.
// Entries are ordered by URI, so the order is the same every time (RS-RL-09).
//
// Changes made while it runs may be in it or not; they are in the Change List
// (RS-MD-02). No completed is given in lists, whose header is written first.
func (b *listBuild) run(ctx context.Context) (*listState, blob.Writer, error) {
	defer b.discardTwin()
	var bounds []string
	for bound, err := range b.catalog.Split(ctx, b.capabilityList(b.set), b.opts.MaxEntries) {
		if err != nil {
			return nil, nil, fmt.Errorf("build resource list: %w", err)
		}
		bounds = append(bounds, bound)
	}
	entry, err := b.single(ctx, bounds)
	if errors.Is(err, resourcesync.ErrTooLarge) {
		entry, err = b.split(ctx, bounds)
	}
	if err == nil && b.twin != nil {
		if err = b.docs.Commit(ctx, b.twin); err != nil {
			_ = entry.Close() // nothing of it is wanted
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("build resource list: %w", err)
	}
	return &listState{At: b.mark.At, Seq: b.mark.Seq, Resources: b.entries.Load(), Parts: b.names, Copy: b.copy}, entry, nil
}

// beginEntry begins the entry document and the copy of it.
func (b *listBuild) beginEntry(ctx context.Context, h resourcesync.Header) (*document, error) {
	b.discardTwin() // of an attempt before
	if b.copy == "" {
		return b.begin(ctx, names.ResourceList(b.set), h, b.stamp)
	}
	w, err := b.docs.Create(ctx, b.copy)
	if err != nil {
		return nil, err
	}
	w.SetModTime(b.stamp)
	b.twin = w
	return b.beginTo(ctx, names.ResourceList(b.set), h, b.stamp, func(entry io.Writer) io.Writer { return io.MultiWriter(entry, w) })
}

func (b *listBuild) discardTwin() {
	if b.twin != nil {
		_ = b.twin.Close() // does nothing where it was committed
	}
}

// single writes the list as one document, if the resources fit it.
func (b *listBuild) single(ctx context.Context, bounds []string) (blob.Writer, error) {
	if len(bounds) > 0 {
		return nil, resourcesync.ErrTooLarge
	}
	d, err := b.beginEntry(ctx, b.header(false))
	if err != nil {
		return nil, err
	}
	describe := b.describer(b.set)
	var e resourcesync.Entry
	for r, err := range b.catalog.Resources(ctx, b.capabilityList(b.set), catalog.Range{}) {
		if err == nil {
			describe.resource(&e, &r)
			err = d.add(&e)
		}
		if err != nil {
			d.discard()
			return nil, err
		}
	}
	return b.finish(d)
}

// split writes the list as parts, in parallel, and an index over them
// (RS-IDX-02).
func (b *listBuild) split(ctx context.Context, bounds []string) (blob.Writer, error) {
	defer func() {
		for _, w := range b.open {
			_ = w.Close() // does nothing where it was committed
		}
	}()
	b.number.Store(int64(len(bounds)) + 1)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(b.opts.Workers)
	from := ""
	for i, to := range append(bounds, "") {
		r := catalog.Range{From: from, To: to}
		g.Go(func() error { return b.writeRange(gctx, r, int64(i)+1) })
		from = to
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if err := b.docs.Commit(ctx, b.open...); err != nil {
		return nil, err
	}
	slices.Sort(b.names)
	return b.index(ctx)
}

// writeRange writes the resources in r as part number. Should they not fit,
// for their bytes or because there are more by now, more parts are begun.
func (b *listBuild) writeRange(ctx context.Context, r catalog.Range, number int64) error {
	var d *document
	var e resourcesync.Entry
	describe := b.describer(b.set)
	for rec, err := range b.catalog.Resources(ctx, b.capabilityList(b.set), r) {
		if err == nil && d == nil {
			d, err = b.begin(ctx, names.ResourceListPart(b.set, b.gen, int(number)), b.header(true), b.stamp)
		}
		if err == nil {
			describe.resource(&e, &rec)
			err = d.add(&e)
		}
		if errors.Is(err, resourcesync.ErrTooLarge) && d.Entries() > 0 {
			if err = b.part(ctx, d); err == nil {
				number = b.number.Add(1)
				d, err = b.begin(ctx, names.ResourceListPart(b.set, b.gen, int(number)), b.header(true), b.stamp)
			}
			if err == nil {
				err = d.add(&e)
			}
		}
		if err != nil {
			if d != nil {
				d.discard()
			}
			return err
		}
	}
	if d == nil {
		return nil // all that was here is gone
	}
	return b.part(ctx, d)
}

// part finishes a part; commits those gathered when there are enough.
func (b *listBuild) part(ctx context.Context, d *document) error {
	w, err := b.finish(d)
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.names = append(b.names, w.Name())
	b.open = append(b.open, w)
	var full []blob.Writer
	if len(b.open) >= commitParts {
		full, b.open = b.open, nil
	}
	b.mu.Unlock()
	if full == nil {
		return nil
	}
	defer func() {
		for _, w := range full {
			_ = w.Close() // does nothing where it was committed
		}
	}()
	return b.docs.Commit(ctx, full...)
}

func (b *listBuild) finish(d *document) (blob.Writer, error) {
	if err := d.Close(); err != nil {
		d.discard()
		return nil, err
	}
	b.entries.Add(int64(d.Entries()))
	b.refused.Add(d.refused)
	b.bytes.Add(d.Bytes())
	return d.blob, nil
}

func (b *listBuild) index(ctx context.Context) (blob.Writer, error) {
	h := b.header(false)
	h.Index = true
	d, err := b.beginEntry(ctx, h)
	if err != nil {
		return nil, err
	}
	for _, name := range b.names {
		e := resourcesync.Entry{Loc: b.base.URI(name), Metadata: resourcesync.Metadata{At: h.At}} // RS-RLI-03
		if err := d.Write(&e); err != nil {
			d.discard()
			return nil, fmt.Errorf("%d parts: %w", len(b.names), err) // RS-IDX-04: one level is all there is
		}
	}
	if err := d.Close(); err != nil {
		d.discard()
		return nil, err
	}
	b.bytes.Add(d.Bytes())
	return d.blob, nil
}

func (b *listBuild) header(part bool) resourcesync.Header {
	h := resourcesync.Header{
		Capability: resourcesync.ResourceList,
		At:         resourcesync.NewDatetime(b.mark.At),
		Links:      []resourcesync.Link{{Rel: "up", Href: b.capabilityList(b.set)}}, // RS-RL-02
	}
	if b.past {
		h.Links = append(h.Links, b.archivesLink(b.set, resourcesync.ResourceList))
	}
	if part {
		index := names.ResourceList(b.set)
		if b.copy != "" {
			index = b.copy // RA-AMB-08
		}
		h.Links = append(h.Links, resourcesync.Link{Rel: "index", Href: b.base.URI(index)}) // RS-IDX-05
	}
	return h
}
