package feed

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"strings"
	"sync"

	"lockstep/internal/sleep"
	"lockstep/validate/finding"
	"lockstep/validate/internal/tally"
	"lockstep/validate/internal/visit"
	"lockstep/validate/opener"
)

// A followed entry is one whose alternate links are to be followed.
type followedEntry struct {
	id, doc, at string
	updated     int64
	links       []link
	findings    []finding.Finding
}

// maxKept caps what is kept of the alternates of one entry.
const maxKept = 64 << 10

// A follower requests the representations to which active entries link, of as
// many entries as [visit.Settings.Sample] says, several concurrently. A resource
// that is no longer there may have changed since: the feed is read again for
// that, once, a little later.
type follower struct {
	*walk
	want   int
	rnd    *rand.Rand
	seen   int
	chosen []tally.Record

	work   chan followedEntry
	wg     sync.WaitGroup
	doubts []followedEntry // guarded by mu
}

func (f *walk) newFollower(ctx context.Context) *follower {
	to := &follower{walk: f}
	if f.visitor.Settings.Sample == 0 || f.single || len(f.chain) == 0 {
		return to
	}
	h := fnv.New64a()
	_, _ = io.WriteString(h, f.chain[0].uri) // never fails
	to.want, to.rnd = min(f.visitor.Settings.Sample, visit.MaxSample), rand.New(rand.NewPCG(f.visitor.Settings.Seed, h.Sum64()))
	to.work = make(chan followedEntry)
	for range f.visitor.Settings.Jobs {
		to.wg.Go(func() {
			for e := range to.work {
				to.look(ctx, &e)
			}
		})
	}
	return to
}

// offer offers an active entry to the follower.
func (f *follower) offer(ctx context.Context, r *tally.Record) {
	switch {
	case f.work == nil || r.Length < 0:
	case f.visitor.Settings.Sample == visit.SampleAll:
		f.send(ctx, r)
	case len(f.chosen) < f.want:
		f.seen++
		f.chosen = append(f.chosen, *r)
	default:
		f.seen++
		if i := f.rnd.IntN(f.seen); i < f.want {
			f.chosen[i] = *r
		}
	}
}

// send passes an entry to the next free goroutine.
func (f *follower) send(ctx context.Context, r *tally.Record) {
	lines := strings.Split(f.tally.Text(r.Length, maxKept), "\n")
	e := followedEntry{id: f.id(r), doc: f.tally.Document(r), at: lines[0], updated: r.Time}
	for i := 1; i+1 < len(lines); i += 2 {
		e.links = append(e.links, link{media: lines[i], href: lines[i+1]})
	}
	select {
	case f.work <- e:
	case <-ctx.Done():
	}
}

// finish follows the chosen entries, unless err ends the run, and files the
// findings.
func (f *follower) finish(ctx context.Context, err error) error {
	if f.work == nil {
		return err
	}
	if err == nil {
		for i := range f.chosen {
			f.send(ctx, &f.chosen[i])
		}
	}
	close(f.work)
	f.wg.Wait()
	if err == nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil || len(f.doubts) == 0 {
		return err
	}
	return f.reconsider(ctx)
}

// look follows the links of an entry.
func (f *follower) look(ctx context.Context, e *followedEntry) {
	for i := range e.links {
		f.link(ctx, e, &e.links[i], true)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(e.findings) > 0 && len(f.doubts) < visit.MaxDoubts {
		f.doubts = append(f.doubts, *e)
	}
}

// link requests a representation, and reads only its headers. The first time it
// checks how it is served.
func (f *follower) link(ctx context.Context, e *followedEntry, l *link, first bool) {
	doubtful := func(rule, format string, args ...any) {
		e.findings = append(e.findings, finding.Finding{Rule: rule, Level: finding.Error, Document: e.doc, Location: e.at, Message: l.href + ": " + fmt.Sprintf(format, args...)})
	}
	a, err := f.visitor.Ask(ctx, opener.Request{URI: l.href, Resource: true})
	if first {
		f.mu.Lock()
		if errors.Is(err, opener.ErrUnseen) {
			f.visitor.Collector.Report.Unseen++
		} else {
			f.visitor.Collector.Report.Links++
		}
		f.mu.Unlock()
	}
	switch {
	case errors.Is(err, opener.ErrUnseen), ctx.Err() != nil:
		return
	case err != nil:
		doubtful("AP-ACT-06", "an alternate link of an active entry, but %v", err)
		return
	}
	visit.Discard(a.Body)
	if a.Header == nil {
		return
	}
	if t := a.Header.Get("Content-Type"); t != "" && l.media != "" && !visit.SameType(t, l.media) {
		doubtful("AP-ACT-05", "served as %s, but the link says %s", t, l.media)
	}
	if first {
		f.mu.Lock()
		validators(f.visitor.Collector.In(l.href), a.Header)
		f.mu.Unlock()
	}
}

// reconsider files the doubts that the current subscription document does not
// resolve, and that still exist.
func (f *follower) reconsider(ctx context.Context) error {
	if err := sleep.For(ctx, f.visitor.Settings.Settle); err != nil {
		return err
	}
	newer := &walk{visitor: f.visitor.Quiet(), tally: tally.New(f.visitor.Settings.TempDir)}
	defer newer.tally.Close()
	since := make(map[string]int64, len(f.doubts))
	for i := range f.doubts {
		since[f.doubts[i].id] = f.doubts[i].updated
	}
	if _, err := newer.open(ctx, f.chain[0].uri); err == nil {
		err := newer.tally.Each(ctx, func(r *tally.Record) error {
			if id := newer.id(r); since[id] != 0 {
				since[id] = r.Time // the newest comes last
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, e := range f.doubts {
		if since[e.id] > e.updated {
			continue
		}
		again := followedEntry{doc: e.doc, at: e.at, links: e.links}
		for i := range again.links {
			f.link(ctx, &again, &again.links[i], false)
		}
		for _, finding := range again.findings {
			f.visitor.Collector.Add(finding)
		}
	}
	return ctx.Err()
}
