package destination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/blob"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// A local check compares the files of a mirror with what the Journal says was
// written: size and modification time, in a bucket size and entity tag. Files
// are read only where these differ. See decision 0048.

// CheckLocal says when a run looks at the files of the mirror itself.
type CheckLocal string

// What Options.CheckLocal can be. The default is each run in mirrors of fewer
// than [smallMirror] resources, and once a day in larger ones.
const (
	CheckAuto   CheckLocal = ""
	CheckAlways CheckLocal = "always"
	CheckDaily  CheckLocal = "daily"
	CheckNever  CheckLocal = "never"
)

const (
	// smallMirror is the number of resources below which every run looks.
	smallMirror = 100_000

	// dailyCheck is how old a check may be otherwise. It is less than a day, so
	// that a run every day at the same time looks each time.
	dailyCheck = 23 * time.Hour

	// checkChunk is how many files are looked at together.
	checkChunk = 1024

	// The limit on objects without a recorded entity tag that one run reads.
	untaggedObjects = 1000
	untaggedBytes   = 1 << 30
)

// docLocal is the document in which the Journal keeps a [LocalReport].
const docLocal = "local"

// A LocalReport is the result of the last look at the mirror's own files.
type LocalReport struct {
	CheckedAt time.Time `json:"checked_at,omitzero"` // when all files were last looked at; zero: never
	Checked   bool      `json:"checked"`             // in this run
	Files     int64     `json:"files"`               // that were looked at then
	Missing   int64     `json:"missing"`             // gone, or replaced by something that is not a file
	Changed   int64     `json:"changed"`             // with other content than was written
	Touched   int64     `json:"touched"`             // with another modification time, or entity tag, and the right content
	Repaired  int64     `json:"repaired"`            // of those missing or changed
}

// Damaged is how many files are not as they were written.
func (r *LocalReport) Damaged() int64 { return r.Missing + r.Changed }

// repairedAll notes that nothing is damaged any more.
func (r *LocalReport) repairedAll() {
	if r != nil {
		r.Repaired = r.Damaged()
	}
}

// A localState is what a look at one file says.
type localState uint8

const (
	localRight   localState = iota // as recorded
	localRecord                    // right, and the record is to be completed or refreshed
	localTouched                   // likewise, after its content was compared
	localMissing
	localChanged
	localUnknown // it cannot be looked at: err says why
)

// A localLook is what was found at the path of one row.
type localLook struct {
	row   journal.Held
	state localState
	cause string
	other bool // the store says that it is not the version that was recorded
	err   error
}

// localDue reports whether the run is to look at the files.
func (s *session) localDue(last *LocalReport) bool {
	var held int64
	for _, n := range s.counts {
		held += n
	}
	age := s.d.clock().Sub(last.CheckedAt)
	aged := last.CheckedAt.IsZero() || age < 0 || age >= dailyCheck
	switch {
	case s.d.isForgetful() || s.past != nil:
		return false
	case s.d.opts.CheckLocal == CheckNever:
		return false
	case s.d.opts.CheckLocal == CheckAlways:
		return true
	case s.d.opts.CheckLocal == CheckDaily:
		return aged
	}
	return aged || held < smallMirror
}

// holdsAny reports whether any resource is held.
func (s *session) holdsAny() bool {
	for _, n := range s.counts {
		if n > 0 {
			return true
		}
	}
	return false
}

// checkLocal looks at the files of all resources that are held, if it is time
// to. What is damaged becomes pending for its sets, so that this run, or a
// later one if this one is killed, fetches it.
func (s *session) checkLocal(ctx context.Context) error {
	last := &LocalReport{}
	if _, err := saved.Load(ctx, s.d.journal, docLocal, last); err != nil {
		return err
	}
	s.damaged, s.unrepaired = nil, 0
	if !s.d.isForgetful() {
		s.report.Local = last
	}
	if s.mirror.Found == nil || !s.localDue(last) {
		return nil
	}
	if last.CheckedAt.IsZero() && !s.holdsAny() { // a mirror that is new
		s.report.Local = nil
		return nil
	}
	c := &localCheck{session: s, offered: map[int]bool{}, damaged: map[int]bool{}}
	for i := range s.mirror.Found.Sets {
		if n, known := s.mirror.Numbers[setURI(&s.mirror.Found.Sets[i])]; known {
			c.offered[n] = true
		}
	}
	if len(c.offered) == 0 {
		return nil
	}
	c.report = &LocalReport{CheckedAt: s.d.clock().UTC().Truncate(time.Second), Checked: true}
	err := c.run(ctx)
	if err == nil {
		err = c.flush(ctx, true)
	}
	if err != nil {
		return err
	}
	s.report.Local, s.damaged = c.report, c.damaged
	if s.d.opts.DryRun {
		s.report.Updated += c.report.Damaged()
		return nil
	}
	done := saved.Encode(&LocalReport{CheckedAt: c.report.CheckedAt, Files: c.report.Files})
	err = s.d.journal.Record(ctx, journal.Batch{Save: map[string][]byte{docLocal: done}})
	if err != nil && isFull(err) {
		s.warn("", fmt.Sprintf("record when the files of the mirror were checked: %v", err)) // the next run looks again
		return nil
	}
	return err
}

// A localCheck is one look at all files.
type localCheck struct {
	*session
	report  *LocalReport
	offered map[int]bool // numbers of the sets that can be repaired from the Source
	damaged map[int]bool // and of those that have to be
	sums    content.Hashers
	marks   journal.Batch

	untagged, untaggedBytes int64 // that were read for want of a recorded tag
}

// A localChunk is the files of some resources whose URIs follow each other.
type localChunk struct {
	page  journal.FilePage
	rows  []journal.Held // nil: only the page is known
	looks []localLook    // what is not as recorded
	done  chan struct{}
}

// chunks yields what is held. If files are distinguished by their times alone,
// the Journal may have a cheaper way to list them.
func (c *localCheck) chunks(ctx context.Context) iter.Seq2[*localChunk, error] {
	lister, cheap := c.d.journal.(journal.FileLister)
	_, files := c.d.store.(blob.BatchStater)
	return func(yield func(*localChunk, error) bool) {
		if cheap && files {
			for p, err := range lister.Files(ctx) {
				if !yield(&localChunk{page: p, done: make(chan struct{})}, err) || err != nil {
					return
				}
			}
			return
		}
		next := &localChunk{done: make(chan struct{})}
		for h, err := range c.d.journal.Held(ctx, "", "") {
			if err != nil {
				yield(nil, err)
				return
			}
			if next.rows = append(next.rows, h); len(next.rows) == checkChunk {
				if !yield(next, nil) {
					return
				}
				next = &localChunk{done: make(chan struct{})}
			}
		}
		yield(next, nil)
	}
}

// run looks at the files, chunk by chunk in the order of the URIs: those of one
// directory mostly follow each other. Several chunks are looked at at a time,
// and the results taken in order.
func (c *localCheck) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	workers := max(2, runtime.GOMAXPROCS(0))
	todo, order := make(chan *localChunk, workers), make(chan *localChunk, 2*workers)
	g.Go(func() error {
		defer close(todo)
		defer close(order)
		for k, err := range c.chunks(ctx) {
			if err != nil {
				return fmt.Errorf("read what is held: %w", err)
			}
			for _, to := range []chan<- *localChunk{order, todo} {
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
			c.report.Files += int64(len(k.page.Files) + len(k.rows))
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

// lookAt looks at the files of a chunk. The rows of a page are read only if one
// of its files is not as recorded.
func (c *localCheck) lookAt(ctx context.Context, k *localChunk) (err error) {
	if k.rows != nil {
		k.looks, err = c.look(ctx, k.rows)
		return err
	}
	names := make([]string, len(k.page.Files))
	for i := range names {
		names[i] = k.page.Files[i].Path
	}
	same := true
	err = c.d.store.(blob.BatchStater).StatAll(ctx, names, func(i int, info blob.Info, err error) {
		f := &k.page.Files[i]
		same = same && err == nil && isAsRecorded(&journal.Held{Length: f.Length, Written: f.Written, Tag: f.Tag}, &info)
	})
	if err != nil || same {
		return err
	}
	var rows []journal.Held
	from := k.page.After
	if from != "" {
		from += "\x00" // the page begins behind it
	}
	for h, err := range c.d.journal.Held(ctx, from, k.page.Last+"\x00") {
		if err != nil {
			return err
		}
		rows = append(rows, h)
	}
	k.looks, err = c.look(ctx, rows)
	return err
}

// look describes the files of rows and returns those that are not as recorded.
func (c *localCheck) look(ctx context.Context, rows []journal.Held) ([]localLook, error) {
	var looks []localLook
	var failed error
	each := func(i int, info blob.Info, err error) {
		h := &rows[i]
		if failed != nil || err == nil && isAsRecorded(h, &info) {
			return
		}
		l, lerr := c.compare(h, &info, err)
		if lerr != nil {
			failed = lerr
		} else if l.state != localRight {
			looks = append(looks, l)
		}
	}
	var err error
	if b, ok := c.d.store.(blob.BatchStater); ok {
		names := make([]string, len(rows))
		for i := range rows {
			names[i] = rows[i].Path
		}
		err = b.StatAll(ctx, names, each)
	} else {
		for i := range rows {
			info, serr := c.d.store.Stat(ctx, rows[i].Path)
			if err = ctx.Err(); err != nil {
				break
			}
			each(i, info, serr)
		}
	}
	if failed != nil || err != nil {
		return nil, cmp.Or(failed, err)
	}
	for i := range looks {
		if l := &looks[i]; l.state == localTouched && l.other {
			if err := c.read(ctx, l); err != nil {
				return nil, err
			}
		}
	}
	return looks, nil
}

// isAsRecorded reports whether nothing about a file is new.
func isAsRecorded(h *journal.Held, info *blob.Info) bool {
	switch {
	case h.Length != info.Size:
		return false
	case info.Version != "":
		return info.Version == h.Tag
	}
	return !h.Written.IsZero() && info.ModTime.UnixMicro() == h.Written.UnixMicro()
}

// compare says what is new about a file. Whether its content is the right one is
// left open where that takes reading it: the state is then localTouched.
func (c *localCheck) compare(h *journal.Held, info *blob.Info, err error) (localLook, error) {
	l := localLook{row: *h}
	switch {
	case errors.Is(err, blob.ErrNotExist), errors.Is(err, blob.ErrNotDirectory):
		l.state, l.cause = localMissing, "the file is gone"
	case errors.Is(err, blob.ErrDirectory):
		l.state, l.cause = localMissing, "a directory is in its place"
	case errors.Is(err, blob.ErrForeign):
		l.state, l.cause = localMissing, "a link or device is in its place"
	case isShortage(err), isDown(err), isCanceled(err):
		return l, fmt.Errorf("look at the files of the mirror%s: %w", c.d.inDest(), err)
	case err != nil:
		l.state, l.err = localUnknown, err
	case len(h.Hashes) == 0: // it is to be fetched again anyway
	case info.Size != h.Length:
		l.state, l.cause = localChanged, fmt.Sprintf("the file has %d bytes, it was written with %d", info.Size, h.Length)
	default:
		l.other = info.Version == "" || h.Tag != ""
		l.row.Written, l.row.Tag = info.ModTime.Truncate(time.Microsecond).UTC(), info.Version
		l.state = localTouched
		if isProven(h, info) {
			l.state = localRecord
		}
	}
	if l.state == localMissing && len(h.Hashes) == 0 {
		l.state = localRight // it is to be fetched again anyway
	}
	return l, nil
}

// isProven reports whether a row that says nothing of the file's time or tag
// can be completed without reading the file.
func isProven(h *journal.Held, info *blob.Info) bool {
	if info.Version != "" {
		return h.Tag == "" && isMD5Of(info.Version, h.Hashes)
	}
	return h.Written.IsZero() && (h.Lastmod.IsZero() || info.ModTime.Truncate(time.Microsecond).Equal(h.Lastmod))
}

var plainTag = regexp.MustCompile(`^"?([0-9a-f]{32})"?$`)

// isMD5Of reports whether an entity tag is the MD5 digest among hashes, as it is
// of objects that were uploaded in one piece to most services.
func isMD5Of(tag string, hashes resourcesync.Hashes) bool {
	m := plainTag.FindStringSubmatch(tag)
	digest := hashes.Get(resourcesync.MD5)
	return m != nil && digest != "" && fmt.Sprintf("%x", digest) == m[1]
}

// take records the result of a look, and reads the file if only its content can
// decide.
func (c *localCheck) take(ctx context.Context, l *localLook) error {
	if l.state == localTouched && !l.other {
		if !c.mayRead(l) {
			return nil // a later run does
		}
		if err := c.read(ctx, l); err != nil {
			return err
		}
	}
	switch l.state {
	case localTouched, localRecord:
		if l.state == localTouched {
			c.report.Touched++
		}
		c.marks.Put = append(c.marks.Put, l.row)
		return c.flush(ctx, false)
	case localUnknown:
		c.session.report.fail(l.row.URI, fmt.Sprintf("look at the file of %s%s: %v", fetch.Printable(l.row.URI), c.d.inDest(), l.err))
		c.unrepaired++
		return nil
	case localMissing:
		c.report.Missing++
	default:
		c.report.Changed++
	}
	return c.repair(ctx, l)
}

// mayRead reports whether an object whose tag was never recorded is to be read
// in this run.
func (c *localCheck) mayRead(l *localLook) bool {
	c.untagged++
	c.untaggedBytes += l.row.Length
	return c.untagged <= untaggedObjects && c.untaggedBytes <= untaggedBytes
}

// read compares the content of a file with what was written.
func (c *localCheck) read(ctx context.Context, l *localLook) error {
	n, got, err := c.sums.Blob(ctx, c.d.store, l.row.Path, content.Algorithms(l.row.Hashes))
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case isShortage(err), isDown(err):
		return fmt.Errorf("read the files of the mirror%s: %w", c.d.inDest(), err)
	case errors.Is(err, blob.ErrNotExist):
		l.state, l.cause = localMissing, "the file is gone"
	case err != nil:
		l.state, l.cause = localChanged, err.Error()
	case !sameContent(&l.row, &journal.Held{Length: n, Hashes: got}):
		l.state, l.cause = localChanged, "the file has other content than was written"
	}
	return nil
}

// repair makes a damaged file pending for the sets that contain it. Resources
// of sets that the Source no longer offers cannot be fetched: they are failures.
func (c *localCheck) repair(ctx context.Context, l *localLook) error {
	h := l.row
	var sets []int
	for _, n := range h.Sets {
		if c.offered[n] {
			sets = append(sets, n)
		}
	}
	what := fmt.Sprintf("the file of %s is damaged (%s)", fetch.Printable(h.URI), l.cause)
	if len(sets) == 0 && c.d.opts.Baseline {
		return nil // its set is removed from the mirror
	}
	if len(sets) == 0 {
		c.session.report.fail(h.URI, what+", and the Source no longer offers the set it was in; --baseline removes the set from the mirror")
		c.unrepaired++
		return nil
	}
	for _, n := range sets {
		c.damaged[n] = true
	}
	if c.d.opts.DryRun {
		return nil
	}
	moved, blocked, err := c.d.makeRoom(ctx, h.Path)
	if err != nil {
		return fmt.Errorf("repair %s: %w", fetch.Printable(h.URI), err)
	}
	if moved != "" {
		c.warn(h.URI, fmt.Sprintf("%s: what was in its place was moved to %s", fetch.Printable(h.URI), moved))
	}
	w := desired.Resource{URI: h.URI, Length: h.Length, Hashes: h.Hashes, Rank: desired.Rank{Class: desired.Pending}}
	if !h.Lastmod.IsZero() {
		w.Lastmod = resourcesync.NewDatetime(h.Lastmod)
	}
	entry := w.Append(nil)
	for _, n := range sets {
		c.marks.Owe = append(c.marks.Owe, journal.Owed{Set: n, URI: h.URI, Entry: entry, Cause: what})
	}
	if blocked { // it gets another place until this one is free
		c.marks.Drop = append(c.marks.Drop, h.URI)
		for _, n := range h.Sets {
			c.counts[n]--
		}
	} else {
		h.Hashes, h.ETag, h.Modified, h.Written, h.Tag = nil, "", "", time.Time{}, ""
		c.marks.Put = append(c.marks.Put, h)
	}
	return c.flush(ctx, false)
}

// flush writes marks to the Journal, when they are many or all is to be written.
func (c *localCheck) flush(ctx context.Context, all bool) error {
	n := len(c.marks.Put) + len(c.marks.Drop) + len(c.marks.Owe)
	if n == 0 || !all && n < 4*batchCount {
		return nil
	}
	b := c.marks
	c.marks = journal.Batch{}
	if c.d.opts.DryRun {
		return nil
	}
	if err := c.keepOwed(ctx, &b); err != nil {
		return err
	}
	if len(b.Drop) > 0 {
		b.Save = map[string][]byte{saved.DocCounts: saved.Encode(c.counts)}
	}
	if err := c.keep.AddPast(ctx, &b); err != nil {
		return err
	}
	if err := c.keep.Record(ctx, c.d.journal, b); err != nil {
		return fmt.Errorf("record what the local check found: %w", err)
	}
	return nil
}

// keepOwed does not replace work that is pending already: it may be for a newer
// version than the one whose file is damaged.
func (c *localCheck) keepOwed(ctx context.Context, b *journal.Batch) error {
	known := map[owedKey]bool{}
	asked := map[int]bool{}
	for i := range b.Owe {
		n := b.Owe[i].Set
		if asked[n] {
			continue
		}
		asked[n] = true
		damaged := map[string]bool{}
		for k := range b.Owe {
			damaged[b.Owe[k].URI] = true
		}
		for o, err := range c.d.journal.Owed(ctx, n) {
			if err != nil {
				return err
			}
			if damaged[o.URI] {
				known[owedKey{n, o.URI}] = true
			}
		}
	}
	b.Owe = slices.DeleteFunc(b.Owe, func(o journal.Owed) bool { return known[owedKey{o.Set, o.URI}] })
	return nil
}

// makeRoom moves things that no store creates, and empty directories, away from
// the path of a file. It reports what was moved where, and whether something
// else is still there that is not ours to move.
func (d *Destination) makeRoom(ctx context.Context, path string) (moved string, blocked bool, err error) {
	if c, ok := d.store.(blob.Clearer); ok {
		if moved, err = c.Clear(ctx, path); err != nil {
			return moved, false, err
		}
	}
	blocked, err = d.blocked(ctx, path)
	return moved, blocked, err
}

// An owedKey identifies pending work.
type owedKey struct {
	set int
	uri string
}
