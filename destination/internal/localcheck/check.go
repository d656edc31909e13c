// Package localcheck compares the files of a mirror with what the Journal recorded
// when they were written: size and modification time, or for objects in a bucket
// size and entity tag. It reads a file only if these differ. See decision 0048.
package localcheck

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/blob"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/filetime"
	"lockstep/destination/internal/history"
	"lockstep/destination/internal/reserve"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

const (
	// chunkSize is the number of files examined together.
	chunkSize = 1024

	// marksSize is the number of changed rows recorded together.
	marksSize = 4096

	// Limits on the objects without a recorded entity tag that one run reads.
	untaggedObjects = 1000
	untaggedBytes   = 1 << 30
)

// A Mirror is the mirror to check, with functions that receive the results.
type Mirror struct {
	Journal  journal.Journal
	Files    blob.Store
	Keep     *history.Keeper
	Counts   saved.Counts
	Offered  map[int]bool // numbers of the sets that can be repaired from the Source
	In       string       // names the mirror in the middle of a sentence; may be empty
	DryRun   bool         // change nothing
	Baseline bool         // sets that the Source no longer offers are being removed

	Warn func(uri, text string)
	Fail func(uri, cause string) // a file that no set can repair

	Planned func(*journal.Held) // with DryRun: a resource that would be repaired; may be nil
}

// A Result counts what a check found.
type Result struct {
	Files   int64 // number of files examined
	Missing int64 // gone, or replaced by something that is not a file
	Changed int64 // with different content
	Touched int64 // with the right content, but another modification time or entity tag

	Damaged    map[int]bool // numbers of the sets with files to repair
	Unrepaired int          // files that are damaged or cannot be examined, and that no set can repair
}

// Run examines the files of all resources that the mirror holds. Damaged files
// become pending for their sets, so that this run, or a later one if this one is
// killed, fetches them.
func Run(ctx context.Context, m Mirror) (Result, error) {
	c := &check{m: m, result: Result{Damaged: map[int]bool{}}}
	err := c.run(ctx)
	if err == nil {
		err = c.flush(ctx, true)
	}
	return c.result, err
}

// A check examines all files once.
type check struct {
	m      Mirror
	result Result
	sums   content.Hashers
	marks  journal.Batch

	untagged, untaggedBytes int64 // objects that were read because no tag was recorded
}

// A chunk contains the files of consecutive resources, ordered by URI.
type chunk struct {
	page  journal.FilePage
	rows  []journal.Held // nil: only the page is known
	looks []look         // files that differ from their records
	done  chan struct{}
}

// chunks yields all files. If files are compared by time only, the Journal may have
// a cheaper method of listing them.
func (c *check) chunks(ctx context.Context) iter.Seq2[*chunk, error] {
	lister, cheap := c.m.Journal.(journal.FileLister)
	_, files := c.m.Files.(blob.BatchStater)
	return func(yield func(*chunk, error) bool) {
		if cheap && files {
			for p, err := range lister.Files(ctx) {
				if !yield(&chunk{page: p, done: make(chan struct{})}, err) || err != nil {
					return
				}
			}
			return
		}
		next := &chunk{done: make(chan struct{})}
		for h, err := range c.m.Journal.Held(ctx, "", "") {
			if err != nil {
				yield(nil, err)
				return
			}
			if next.rows = append(next.rows, h); len(next.rows) == chunkSize {
				if !yield(next, nil) {
					return
				}
				next = &chunk{done: make(chan struct{})}
			}
		}
		if len(next.rows) > 0 {
			yield(next, nil)
		}
	}
}

// run examines the files, chunk by chunk in the order of the URIs, because the
// files of one directory are mostly consecutive. Several chunks are examined
// concurrently, and the results are recorded in order.
func (c *check) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	workers := max(2, runtime.GOMAXPROCS(0))
	todo, order := make(chan *chunk, workers), make(chan *chunk, 2*workers)
	g.Go(func() error {
		defer close(todo)
		defer close(order)
		for k, err := range c.chunks(ctx) {
			if err != nil {
				return fmt.Errorf("read what is held: %w", err)
			}
			for _, to := range []chan<- *chunk{order, todo} {
				select {
				case to <- k:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
		}
		return nil
	})
	for range workers {
		g.Go(func() error {
			for k := range todo {
				if err := c.lookAt(ctx, k); err != nil {
					return err
				}
				close(k.done)
			}
			return nil
		})
	}
	g.Go(func() error {
		for k := range order {
			select {
			case <-k.done:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			c.result.Files += int64(len(k.page.Files) + len(k.rows))
			for i := range k.looks {
				if err := c.take(ctx, &k.looks[i]); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return g.Wait()
}

// take records the result for a file, and reads the file if only its content can
// show the result.
func (c *check) take(ctx context.Context, l *look) error {
	if l.state == touched && !l.other {
		if !c.mayRead(l) {
			return nil // a later run reads it
		}
		if err := c.read(ctx, l); err != nil {
			return err
		}
	}
	switch l.state {
	case touched, refresh:
		if l.state == touched {
			c.result.Touched++
			if !c.m.DryRun {
				filetime.Set(ctx, c.m.Files, &l.row)
			}
		}
		c.marks.Put = append(c.marks.Put, l.row)
		return c.flush(ctx, false)
	case unknown:
		c.m.Fail(l.row.URI, fmt.Sprintf("look at the file of %s%s: %v", fetch.Printable(l.row.URI), c.m.In, l.err))
		c.result.Unrepaired++
		return nil
	case missing:
		c.result.Missing++
	default:
		c.result.Changed++
	}
	return c.repair(ctx, l)
}

// mayRead reports whether an object whose tag was never recorded is read in this
// run.
func (c *check) mayRead(l *look) bool {
	c.untagged++
	c.untaggedBytes += l.row.Length
	return c.untagged <= untaggedObjects && c.untaggedBytes <= untaggedBytes
}

// repair makes a damaged file pending for the sets that contain it. Resources of
// sets that the Source no longer offers cannot be fetched: they are failures.
func (c *check) repair(ctx context.Context, l *look) error {
	h := l.row
	var sets []int
	for _, n := range h.Sets {
		if c.m.Offered[n] {
			sets = append(sets, n)
		}
	}
	what := fmt.Sprintf("the file of %s is damaged (%s)", fetch.Printable(h.URI), l.cause)
	if len(sets) == 0 && c.m.Baseline {
		return nil // its set is being removed from the mirror
	}
	if len(sets) == 0 {
		c.m.Fail(h.URI, what+", and the Source no longer offers the set it was in; --baseline removes the set from the mirror")
		c.result.Unrepaired++
		return nil
	}
	for _, n := range sets {
		c.result.Damaged[n] = true
	}
	if c.m.DryRun {
		if c.m.Planned != nil {
			c.m.Planned(&h)
		}
		return nil
	}
	moved, blocked, err := makeRoom(ctx, c.m.Files, h.Path)
	if err != nil {
		return fmt.Errorf("repair %s: %w", fetch.Printable(h.URI), err)
	}
	if moved != "" {
		c.m.Warn(h.URI, fmt.Sprintf("%s: what was in its place was moved to %s", fetch.Printable(h.URI), moved))
	}
	entry := Entry(&h)
	for _, n := range sets {
		c.marks.Owe = append(c.marks.Owe, journal.Owed{Set: n, URI: h.URI, Entry: entry, Cause: what})
	}
	if blocked { // it gets another path until this one is free
		c.marks.Drop = append(c.marks.Drop, h.URI)
		for _, n := range h.Sets {
			c.m.Counts[n]--
		}
	} else {
		h.Hashes, h.ETag, h.Modified, h.Written, h.Tag = nil, "", "", time.Time{}, ""
		c.marks.Put = append(c.marks.Put, h)
	}
	return c.flush(ctx, false)
}

// Entry returns the pending entry of a damaged file: only the Journal says what it should be.
func Entry(h *journal.Held) []byte {
	w := desired.Resource{URI: h.URI, Length: h.Length, Hashes: h.Hashes, Undescribed: true, Rank: desired.Rank{Class: desired.Pending}}
	if !h.Lastmod.IsZero() {
		w.Lastmod = resourcesync.NewDatetime(h.Lastmod)
	}
	return w.Append(nil)
}

// flush records the changed rows if there are many of them or all is set.
func (c *check) flush(ctx context.Context, all bool) error {
	n := len(c.marks.Put) + len(c.marks.Drop) + len(c.marks.Owe)
	if n == 0 || !all && n < marksSize {
		return nil
	}
	b := c.marks
	c.marks = journal.Batch{}
	if c.m.DryRun {
		return nil
	}
	if err := KeepPending(ctx, c.m.Journal, &b); err != nil {
		return err
	}
	if len(b.Drop) > 0 {
		b.Save = map[string][]byte{saved.DocCounts: saved.Encode(c.m.Counts)}
	}
	if err := c.m.Keep.AddPast(ctx, &b); err != nil {
		return err
	}
	if err := c.m.Keep.Record(ctx, c.m.Journal, b); err != nil {
		return fmt.Errorf("record what the local check found: %w", err)
	}
	return nil
}

// KeepPending removes from b the changes that would replace work that is already
// pending, which may be for a newer version than the damaged one.
func KeepPending(ctx context.Context, j journal.Journal, b *journal.Batch) error {
	known := map[pendingKey]bool{}
	damaged, asked := map[string]bool{}, map[int]bool{}
	for i := range b.Owe {
		damaged[b.Owe[i].URI] = true
	}
	for i := range b.Owe {
		n := b.Owe[i].Set
		if asked[n] {
			continue
		}
		asked[n] = true
		for o, err := range j.Owed(ctx, n) {
			if err != nil {
				return err
			}
			if !damaged[o.URI] {
				continue
			}
			w, _, err := desired.Decode(o.URI, string(o.Entry))
			if err != nil {
				return err
			}
			if !w.Gone || !w.Unconfirmed { // a deletion that was only notified does not repair the file
				known[pendingKey{n, o.URI}] = true
			}
		}
	}
	b.Owe = slices.DeleteFunc(b.Owe, func(o journal.Owed) bool { return known[pendingKey{o.Set, o.URI}] })
	return nil
}

// makeRoom moves things that no store creates, and empty directories, away from the
// path of a file. It returns where they were moved, and whether the path is still
// blocked by something that must not be moved.
func makeRoom(ctx context.Context, store blob.Store, path string) (moved string, blocked bool, err error) {
	if c, ok := store.(blob.Clearer); ok {
		if moved, err = c.Clear(ctx, path); err != nil {
			return moved, false, err
		}
	}
	blocked, err = reserve.Blocked(ctx, store, path)
	return moved, blocked, err
}

// A pendingKey identifies pending work.
type pendingKey struct {
	set int
	uri string
}
