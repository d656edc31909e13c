package bitstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/blob"
	"lockstep/catalog"
)

// A recorder is a catalog.Catalog that stores the bytes behind one set's
// changes.
type recorder struct {
	catalog.Catalog
	keeper *Keeper
	set    string
	opts   SetOptions
	marked atomic.Bool   // the set's history has begun
	turn   chan struct{} // capacity 1: held by an Apply, because the records it compares with must not change meanwhile

	mu    sync.Mutex        // guards again
	again map[string]string // Tokens of the updates that were left out, by URI

	indexing chan struct{} // capacity 1: held from before the catalog changes until the index of versions is updated
	indexed  bool          // the index is up to date; guarded by indexing
	missing  atomic.Bool   // versions of existing resources may be missing
	waits    atomic.Bool   // changes were left out until the vault accepts their versions

	beginning sync.RWMutex // held by the first Mark, and shared by an Apply that relies on there being none; across I/O on purpose
}

// Mark implements [catalog.Catalog].
func (r *recorder) Mark(ctx context.Context, set string) (catalog.Mark, error) {
	return r.MarkAfter(ctx, set, time.Time{})
}

// MarkAfter implements [catalog.LaterMarker].
func (r *recorder) MarkAfter(ctx context.Context, set string, at time.Time) (catalog.Mark, error) {
	if set != r.set {
		return catalog.MarkAfter(ctx, r.Catalog, set, at)
	}
	if !r.marked.Load() {
		r.beginning.Lock()
		defer r.beginning.Unlock()
	}
	m, err := catalog.MarkAfter(ctx, r.Catalog, set, at)
	if err == nil {
		err = r.settle(ctx) // everything before m
	}
	return m, err
}

// Apply implements [catalog.Catalog]. It stores all bytes durably before it
// applies the updates; see [SetOptions.Open] for how these may differ from the
// arguments.
func (r *recorder) Apply(ctx context.Context, set string, updates []catalog.Update) (catalog.Applied, error) {
	if set != r.set || !r.opts.Past && r.opts.Patches == nil && r.opts.Versions == nil {
		return r.Catalog.Apply(ctx, set, updates)
	}
	if err := catalog.Check(set, updates); err != nil {
		return catalog.Applied{}, err
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return catalog.Applied{}, ctx.Err()
	}
	if !r.opts.keepsVersions() {
		return r.applyOnce(ctx, updates)
	}
	var all catalog.Applied
	for _, step := range inSteps(updates) {
		a, err := r.applyOnce(ctx, step)
		if err != nil {
			return catalog.Applied{}, err
		}
		all.Created, all.Updated = all.Created+a.Created, all.Updated+a.Updated
		all.Deleted, all.Unchanged = all.Deleted+a.Deleted, all.Unchanged+a.Unchanged
	}
	return all, nil
}

// applyOnce applies updates in one transaction. The caller has the turn.
func (r *recorder) applyOnce(ctx context.Context, updates []catalog.Update) (catalog.Applied, error) {
	for {
		begun, err := r.hasBegun(ctx)
		if err != nil {
			return catalog.Applied{}, err
		}
		b := &batch{recorder: r, begun: begun, past: begun && r.opts.Past, updates: updates}
		applied, done, err := b.apply(ctx)
		if done || err != nil {
			return applied, err
		}
	}
}

// hasBegun reports whether the set's history has begun, which it does with the
// first Mark. No reader can ask for an earlier change.
func (r *recorder) hasBegun(ctx context.Context) (bool, error) {
	if !r.marked.Load() {
		st, err := r.Catalog.Status(ctx, r.set)
		if err != nil {
			return false, err
		}
		if !st.Kept.At.IsZero() {
			r.marked.Store(true)
		}
	}
	return r.marked.Load(), nil
}

// A batch is a running Apply.
type batch struct {
	*recorder
	begun   bool // the set's history has begun
	past    bool // the bytes of all changes are to be stored
	updates []catalog.Update

	before presents // the previous state of the resources

	mu       sync.Mutex // guards what follows
	withheld []bool     // by index of updates
	pinned   []digest
	ready    []blob.Writer // to be committed
	problems problems
	waiting  problems // changes that wait until the vault accepts their versions
	versions versions
}

// problems counts bytes that could not be stored.
type problems struct {
	count int
	first error
}

func (p *problems) add(err error) {
	if p.count++; p.count == 1 {
		p.first = err
	}
}

// apply stores bytes, then applies. It does nothing if the set's history has
// begun meanwhile: then more has to be stored.
func (b *batch) apply(ctx context.Context) (a catalog.Applied, done bool, err error) {
	defer func() {
		for _, w := range b.ready {
			_ = w.Close() // no effect on committed ones
		}
		closeAll(b.versions.staged)
		b.keeper.pins.unpin(b.pinned)
	}()
	if b.opts.keepsVersions() {
		defer b.keeper.opts.Vault.Hold()()
		if err := b.lookUp(ctx); err != nil {
			return a, false, err
		}
	}
	if b.past || b.opts.Patches != nil || b.opts.keepsVersions() {
		b.updates = slices.Clone(b.updates)
		b.withheld = make([]bool, len(b.updates))
		if err := b.keepAll(ctx); err != nil {
			return a, false, err
		}
	}
	if b.opts.Past && !b.past {
		b.beginning.RLock()
		defer b.beginning.RUnlock()
		if begun, err := b.hasBegun(ctx); err != nil || begun {
			return a, false, err
		}
	}
	a, err = b.applyIndexed(ctx, b.remaining(ctx))
	return a, true, err
}

// keepAll stores the bytes of all updates, those of one URI in order.
func (b *batch) keepAll(ctx context.Context) error {
	if err := b.lookAhead(ctx); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	jobs := make(chan []int)
	g.Go(func() error {
		defer close(jobs)
		for _, indices := range byURI(b.updates) {
			select {
			case jobs <- indices:
			case <-gctx.Done():
				return gctx.Err()
			}
		}
		return nil
	})
	for range min(b.keeper.opts.Workers, len(b.updates)) {
		g.Go(func() error {
			w := &worker{keeper: b.keeper, opts: &b.opts, batch: b}
			for indices := range jobs {
				if err := w.follow(gctx, indices); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	b.commit(ctx, b.ready)
	staged := b.versions.staged
	b.versions.staged = nil
	if err := b.commitVersions(ctx, staged); err != nil {
		return err
	}
	if b.problems.count > 0 {
		b.missing.Store(true)
		b.keeper.opts.Logger.WarnContext(ctx, "some changes are catalogued without their bytes", slog.String("set", b.set),
			slog.Int("entries", b.problems.count), slog.Any("err", b.problems.first))
	}
	if b.waiting.count > 0 {
		b.waits.Store(true)
		b.keeper.opts.Logger.WarnContext(ctx, "some changes wait, for their versions cannot be kept", slog.String("set", b.set),
			slog.Int("entries", b.waiting.count), slog.Any("err", b.waiting.first))
	}
	return ctx.Err()
}

// byURI returns the indexes of updates other than plain deletions, grouped by
// URI.
func byURI(updates []catalog.Update) [][]int {
	groups := make([][]int, 0, len(updates))
	all := make([]int, len(updates)) // backs groups of one
	at := make(map[string]int, len(updates))
	for i := range updates {
		all[i] = i
		if g, again := at[updates[i].URI]; again {
			groups[g] = append(groups[g], i)
			continue
		}
		at[updates[i].URI] = len(groups)
		groups = append(groups, all[i:i+1:i+1])
	}
	return slices.DeleteFunc(groups, func(g []int) bool {
		return !slices.ContainsFunc(g, func(i int) bool { return !updates[i].Deleted })
	})
}

// maxAgain bounds the number of updates remembered as left out.
const maxAgain = 10_000

// leaveOut reports whether an update is to be left out. An update that comes
// again unchanged is not: Open may disagree with the listing, and a resource
// must not be missing because its past cannot be stored.
func (r *recorder) leaveOut(u *catalog.Update) bool {
	if !r.opts.Rescans {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	token, twice := r.again[u.URI]
	delete(r.again, u.URI)
	if twice && token == u.Token {
		return false
	}
	if r.again == nil || len(r.again) >= maxAgain {
		r.again = make(map[string]string)
	}
	r.again[u.URI] = u.Token
	return true
}

// remaining returns the updates that were not withheld.
func (b *batch) remaining(ctx context.Context) []catalog.Update {
	if !slices.Contains(b.withheld, true) {
		return b.updates
	}
	rest := b.updates[:0:0]
	for i := range b.updates {
		if !b.withheld[i] {
			rest = append(rest, b.updates[i])
		}
	}
	b.keeper.opts.Logger.DebugContext(ctx, "changes left out because the resources kept changing while they were read", slog.String("set", b.set), slog.Int("entries", len(b.updates)-len(rest)))
	return rest
}

// commitEach is how many representations are committed at once: few enough that
// a store of files does not run out of descriptors, many enough that it seldom
// waits for the disk.
const commitEach = 128

// stage adds a finished representation, and commits the collected ones when
// there are enough.
func (b *batch) stage(ctx context.Context, w blob.Writer) {
	b.keeper.staged.Add(1)
	b.mu.Lock()
	b.ready = append(b.ready, w)
	var full []blob.Writer
	if len(b.ready) >= commitEach {
		full, b.ready = b.ready, nil
	}
	b.mu.Unlock()
	b.commit(ctx, full)
}

// commit makes representations durable. A failure is reported and does not
// affect the others.
func (b *batch) commit(ctx context.Context, ws []blob.Writer) {
	defer func() {
		for _, w := range ws {
			_ = w.Close() // no effect on committed ones
		}
	}()
	for rest := ws; len(rest) > 0; {
		err := b.keeper.store.Commit(ctx, rest...)
		if err == nil || ctx.Err() != nil {
			return
		}
		b.problem(fmt.Errorf("keep bytes: %w", err))
		done := 0
		if c, ok := errors.AsType[*blob.CommitError](err); ok {
			done = c.Done
		}
		rest = rest[min(done+1, len(rest)):]
	}
}

func (b *batch) problem(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems.add(err)
}

func (b *batch) wait(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting.add(err)
}

func (b *batch) pin(ctx context.Context, d digest) error {
	if err := b.keeper.pins.pin(ctx, d); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pinned = append(b.pinned, d)
	return nil
}
