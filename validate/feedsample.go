package validate

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"strings"
	"sync"

	"lockstep/validate/finding"
	"lockstep/validate/internal/tally"
	"lockstep/validate/internal/visit"
	"lockstep/validate/opener"
)

// A followed entry is one whose alternate links are to be followed.
type followedEntry struct {
	id, doc, at string
	updated     int64
	links       []feedLink
	findings    []finding.Finding
}

// maxKept caps what is kept of the alternates of one entry.
const maxKept = 64 << 10

// A follower looks where the alternate links of active entries lead, of as many
// entries as [Options.Sample] says, several at once. Who is not there any more
// may have changed since: that is asked of the feed, once, a little later.
type follower struct {
	*feedWalk
	want   int
	rnd    *rand.Rand
	seen   int
	chosen []tally.Record

	work   chan followedEntry
	wg     sync.WaitGroup
	doubts []followedEntry // guarded by mu
}

func (f *feedWalk) newFollower() *follower {
	to := &follower{feedWalk: f}
	if f.Settings.Sample == 0 || f.single || len(f.chain) == 0 {
		return to
	}
	h := fnv.New64a()
	_, _ = io.WriteString(h, f.chain[0].uri) // never fails
	to.want, to.rnd = min(f.Settings.Sample, visit.MaxSample), rand.New(rand.NewPCG(f.Settings.Seed, h.Sum64()))
	to.work = make(chan followedEntry)
	for range f.Settings.Jobs {
		to.wg.Go(func() {
			for e := range to.work {
				to.look(&e)
			}
		})
	}
	return to
}

// offer shows the follower an active entry.
func (f *follower) offer(r *tally.Record) {
	switch {
	case f.work == nil || r.Length < 0:
	case f.Settings.Sample == visit.SampleAll:
		f.send(r)
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

// send hands an entry to whoever is free.
func (f *follower) send(r *tally.Record) {
	lines := strings.Split(f.tally.Text(r.Length, maxKept), "\n")
	e := followedEntry{id: f.id(r), doc: f.tally.Document(r), at: lines[0], updated: r.Time}
	for i := 1; i+1 < len(lines); i += 2 {
		e.links = append(e.links, feedLink{media: lines[i], href: lines[i+1]})
	}
	select {
	case f.work <- e:
	case <-f.Ctx.Done():
	}
}

// finish follows what was chosen, unless err ends the run, and files what was
// found.
func (f *follower) finish(err error) error {
	if f.work == nil {
		return err
	}
	if err == nil {
		for i := range f.chosen {
			f.send(&f.chosen[i])
		}
	}
	close(f.work)
	f.wg.Wait()
	if err == nil && f.Ctx.Err() != nil {
		err = f.Ctx.Err()
	}
	if err != nil || len(f.doubts) == 0 {
		return err
	}
	return f.reconsider()
}

// look follows the links of an entry.
func (f *follower) look(e *followedEntry) {
	for i := range e.links {
		f.link(e, &e.links[i], true)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(e.findings) > 0 && len(f.doubts) < visit.MaxDoubts {
		f.doubts = append(f.doubts, *e)
	}
}

// link asks for a representation, and reads no more of it than its headers. The
// first time it looks at how it is served.
func (f *follower) link(e *followedEntry, l *feedLink, first bool) {
	doubtful := func(rule, format string, args ...any) {
		e.findings = append(e.findings, finding.Finding{Rule: rule, Level: finding.Error, Document: e.doc, Location: e.at, Message: l.href + ": " + fmt.Sprintf(format, args...)})
	}
	a, err := f.Ask(opener.Request{URI: l.href, Resource: true})
	if first {
		f.mu.Lock()
		if errors.Is(err, opener.ErrUnseen) {
			f.Collector.Report.Unseen++
		} else {
			f.Collector.Report.Links++
		}
		f.mu.Unlock()
	}
	switch {
	case errors.Is(err, opener.ErrUnseen), f.Ctx.Err() != nil:
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
		feedValidators(f.Collector.In(l.href), a.Header)
		f.mu.Unlock()
	}
}

// reconsider files the doubts that nothing new in the subscription document
// resolves, and that are still there.
func (f *follower) reconsider() error {
	if err := visit.Pause(f.Ctx, f.Settings.Settle); err != nil {
		return err
	}
	newer := &feedWalk{Visitor: f.Quiet(), tally: tally.New(f.Settings.TempDir)}
	defer newer.tally.Close()
	since := make(map[string]int64, len(f.doubts))
	for i := range f.doubts {
		since[f.doubts[i].id] = f.doubts[i].updated
	}
	if _, err := newer.open(f.chain[0].uri); err == nil {
		err := newer.tally.Each(f.Ctx, func(r *tally.Record) error {
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
			f.link(&again, &again.links[i], false)
		}
		for _, finding := range again.findings {
			f.Collector.Add(finding)
		}
	}
	return f.Ctx.Err()
}
