package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/source/internal/atom"
	"lockstep/source/internal/document"
	"lockstep/source/internal/lists"
	"lockstep/source/internal/names"
)

// A Report says what a Publish came to.
type Report struct {
	Sets    []SetReport
	Written bool     // false: all documents were as they should be
	Later   bool     // something was put off: a later Publish does it, also if the catalog does not change
	Kept    []string // documents left alone, because someone else wrote what is there
	Lacking []string // lines that a robots.txt left alone should have, for others to find the Resource Lists by it
}

// A SetReport is the part of a Report about one set.
type SetReport struct {
	Set       string
	Resources int64       // in the set
	Seq       catalog.Seq // newest change published
	Changes   int64       // published now for the first time
	List      bool        // a new Resource List was written
	Parts     int         // of the Resource List, 0 if it is one document
	Refused   int64       // resources and changes no document can state; each is logged
	Bytes     int64       // of lists written
	Removed   int         // parts of older generations removed
	Elapsed   time.Duration
	Held      bool // the set is not published yet; see Set.Hold

	later bool // the Resource List is put off
}

// lookEvery is how often a Source looks whether all documents are where they
// belong, beside writing what is new.
const lookEvery = time.Minute

// Publish brings all documents in step with the catalog. The order of writes:
// of each set the lists and its Capability List, see publishSet; then the
// Source Description, which names those; then robots.txt and the hint page. It
// may be repeated at any time, after any failure: while the catalog stays as it
// is, nothing is written. One runs at a time; others wait, but PublishChanges goes
// on while large Resource Lists are written. A set that fails does not keep the
// others from being published.
//
// The first time, after a failure and every minute it looks at all documents,
// and makes up for what is missing; in between it trusts that what it wrote is
// there.
func (s *Source) Publish(ctx context.Context) (Report, error) {
	s.publishingAll.Lock()
	defer s.publishingAll.Unlock()
	large := make(map[string]*SetReport) // what was published already; nil: it failed
	var errs []error
	for _, set := range s.opts.Sets {
		r, err := s.publishLarge(ctx, set)
		if ctx.Err() != nil {
			return Report{}, ctx.Err()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("publish set %s: %w", set.Name, err))
		}
		if r != nil || err != nil {
			large[set.Name] = r
		}
	}
	report, err := s.publish(ctx, func(set string) bool {
		_, ok := large[set]
		return ok
	})
	for i := range report.Sets {
		if r := large[report.Sets[i].Set]; r != nil {
			report.Sets[i].add(r)
			report.Written = true
		}
	}
	if err == nil { // otherwise it most likely has the same cause
		err = errors.Join(errs...)
	}
	return report, err
}

// PublishChanges is a Publish that puts off what readers who know of the
// changes can do without: Resource Lists of large sets, and of small ones within
// a second of the last. So it takes little time, however often it is called.
func (s *Source) PublishChanges(ctx context.Context) (Report, error) {
	return s.publish(ctx, func(string) bool { return true })
}

// publishLarge writes the Resource List of a set, if a large one is due, beside
// publications of changes, and then publishes it with what else is new. It returns nil if
// none is due.
func (s *Source) publishLarge(ctx context.Context, set Set) (*SetReport, error) {
	start := time.Now()
	s.publishing.Lock()
	defer s.publishing.Unlock()
	b, err := s.lists.Begin(ctx, s.listed(&set))
	if b == nil || err != nil {
		return nil, err
	}
	defer s.lists.End(ctx, b)
	s.publishing.Unlock()
	err = b.Run(ctx)
	s.publishing.Lock()
	if err != nil {
		return nil, err
	}
	r, _, err := s.publishSet(ctx, set, start, lists.Mode{Built: b})
	if err != nil {
		s.looked = time.Time{}
		return nil, err
	}
	return &r, nil
}

// add adds what was published of the same set earlier.
func (r *SetReport) add(earlier *SetReport) {
	r.List = r.List || earlier.List
	r.Changes += earlier.Changes
	r.Refused += earlier.Refused
	r.Bytes += earlier.Bytes
	r.Removed += earlier.Removed
	r.Elapsed += earlier.Elapsed
}

// publish publishes all sets, puts off what it can of those that are quick, and then
// publishes what names them.
func (s *Source) publish(ctx context.Context, quick func(set string) bool) (Report, error) {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	now := s.docs.Now()
	since := now.Sub(s.looked)
	released, unknown := s.release(ctx)
	look := released || s.looked.IsZero() || since < 0 || since >= lookEvery
	if look {
		s.description.Look()
	}
	report, sets, err := s.publishSets(ctx, look, quick)
	err = errors.Join(unknown, err)
	if ctx.Err() == nil && len(sets) > 0 && (look || err != nil) {
		r, failed := s.description.Publish(ctx, sets)
		report.Written, report.Kept, report.Lacking = report.Written || r.Written, r.Kept, r.Lacking
		err = errors.Join(err, failed)
	}
	switch {
	case err != nil:
		s.looked = time.Time{}
	case look:
		s.looked = now
	}
	s.summarize()
	return report, err
}

// release finds the sets that are not to be published yet, and reports whether one is
// now that was not before. One that cannot be looked at waits, and does not delay the others.
// The caller holds publishing.
func (s *Source) release(ctx context.Context) (released bool, _ error) {
	var errs []error
	for i := range s.opts.Sets {
		set := &s.opts.Sets[i]
		held, err := set.isHeld(ctx, s.docs)
		if err != nil {
			errs = append(errs, fmt.Errorf("look for the documents of set %s: %w", set.Name, err))
			held = true
		}
		released = released || s.held[set.Name] && !held
		s.held[set.Name] = held
	}
	return released, errors.Join(errs...)
}

// isHeld reports whether a set is not to be published yet.
func (set *Set) isHeld(ctx context.Context, docs *document.Store) (bool, error) {
	if set.Hold == nil || !set.Hold() {
		return false, nil
	}
	published, err := set.isPublished(ctx, docs)
	return err == nil && !published, err
}

// isPublished reports whether the lists of a set were published: its Capability List
// follows them.
func (set *Set) isPublished(ctx context.Context, docs *document.Store) (bool, error) {
	_, err := docs.Stat(ctx, names.Set(set.Name).CapabilityList())
	if errors.Is(err, blob.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// publishSets publishes each set, and returns those whose Capability List is
// there.
func (s *Source) publishSets(ctx context.Context, look bool, quick func(set string) bool) (report Report, sets []string, _ error) {
	var errs []error
	for _, set := range s.opts.Sets {
		if err := ctx.Err(); err != nil {
			return report, sets, errors.Join(append(errs, err)...)
		}
		if s.held[set.Name] {
			report.Sets, sets = append(report.Sets, SetReport{Set: set.Name, Held: true}), append(sets, set.Name)
			continue
		}
		r, written, err := s.publishSet(ctx, set, time.Now(), lists.Mode{Look: look, Quick: quick(set.Name)})
		report.Sets = append(report.Sets, r)
		report.Written = report.Written || written
		report.Later = report.Later || r.later
		there := err == nil
		if err != nil {
			errs = append(errs, fmt.Errorf("publish set %s: %w", set.Name, err))
			_, err := s.docs.Stat(ctx, names.Set(set.Name).CapabilityList())
			there = !errors.Is(err, blob.ErrNotExist) // what cannot be looked at is not withdrawn
		}
		if there {
			sets = append(sets, set.Name)
		}
	}
	return report, sets, errors.Join(errs...)
}

// publishSet brings the documents of one set in step with the catalog: its lists,
// its feed and its Capability List. When it looks at all documents, it removes
// those that are not needed any more. The caller began at start.
func (s *Source) publishSet(ctx context.Context, set Set, start time.Time, mode lists.Mode) (r SetReport, written bool, err error) {
	var p *lists.Result
	var feed atom.Result
	defer func() {
		r = setReport(set.Name, &p.Report, start)
		r.Refused += feed.Refused
		r.Bytes += feed.Bytes
		r.later = r.later || feed.Later
	}()
	if p, err = s.lists.Publish(ctx, s.listed(&set), mode); err != nil {
		return r, p.Written, err
	}
	written = p.Written
	s.announce(set.Name, p.After, p.Through)
	if written {
		s.docs.Log.InfoContext(ctx, "published", slog.String("set", set.Name), slog.Int64("entries", p.Resources),
			slog.Int64("seq", int64(p.Seq)), slog.Int64("changes", p.Changes), slog.Bool("list", p.List))
	}
	if set.Atom != nil {
		of := set.feed()
		of.Rules = s.rules[set.Name]
		feed, err = s.feeds.Publish(ctx, atom.Request{Set: *of, Status: p.Status, Look: p.Looked, Back: p.Back, WentBack: p.WentBack})
		written = written || feed.Written
	}
	if err != nil || !p.Looked {
		return r, written, err
	}
	named, err := s.description.Name(ctx, set.Name)
	if err == nil {
		err = p.Tidy(ctx, func(ctx context.Context) error {
			if set.Atom != nil {
				return nil
			}
			return s.feeds.Withdraw(ctx, set.Name)
		})
	}
	return r, written || named, err
}

func setReport(set string, r *lists.Report, start time.Time) SetReport {
	return SetReport{
		Set: set, Resources: r.Resources, Seq: r.Seq, Changes: r.Changes, List: r.List, Parts: r.Parts,
		Refused: r.Refused, Bytes: r.Bytes, Removed: r.Removed, Elapsed: time.Since(start), later: r.Later,
	}
}

// newLists returns the lists of the sets.
func (s *Source) newLists() *lists.Lists {
	return lists.New(lists.Options{
		Docs: s.docs, Catalog: s.catalog, Archives: s.archives, SmallSet: s.opts.SmallSet, Grace: s.opts.Grace, Workers: s.opts.Workers,
		Restart: s.opts.Restart, DumpFloor: s.dumps.Floor,
		NameDocuments: s.description.Name,
	})
}

// listed returns what the lists of the set depend on.
func (s *Source) listed(set *Set) lists.Set {
	return lists.Set{
		Name: set.Name, Rules: s.rules[set.Name], Keep: s.opts.keep(set), Rotate: set.ChangeList.Rotate, Entries: set.ChangeList.Entries,
		Archive: set.Archive.retain,
	}
}

// keep returns how long changes of the set stay in its Change List.
func (o *Options) keep(set *Set) time.Duration {
	if k := set.ChangeList.Keep; k > 0 {
		return max(k, o.Grace)
	}
	return o.Keep
}
