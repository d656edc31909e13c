package destination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/blob"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// AuditOptions says what an audit looks at. The zero value is the usual.
type AuditOptions struct {
	NoContent bool // believe that files of the right length hold the right bytes
}

// Audit compares the mirror with what the Source at address says of itself:
// its Resource List and all changes since, last change first (RS-DST-41).
// Every file is read and hashed, unless told otherwise. It changes nothing.
//
// The mirror is in sync when nothing is missing, stale, corrupt or extra.
// Files in it that we did not make are told apart, as foreign: they are
// nobody's copy, and do not put it out of step. So are resources of which the
// Source states nothing to compare with.
func (d *Destination) Audit(ctx context.Context, address string, o AuditOptions) (AuditReport, error) {
	start, requests := time.Now(), d.client.Requests()
	quiet := &Destination{store: d.store, journal: d.journal, client: d.client, opts: d.opts, selects: d.selects, log: d.log}
	quiet.opts.DryRun = true
	a := &auditor{session: &session{d: quiet, report: Report{Sets: []string{}}}, opts: o}
	a.out = AuditReport{Source: address, Destination: d.opts.Dest}
	err := a.run(ctx, address)
	r := a.out
	r.Sets, r.Failures, r.Warnings = a.report.Sets, a.report.Failures, a.report.Warnings
	slices.SortFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.URI, b.URI), strings.Compare(a.Path, b.Path))
	})
	r.InSync = err == nil && r.Missing+r.Stale+r.Corrupt+r.Extra == 0
	r.Requests, r.Elapsed = d.client.Requests()-requests, time.Since(start).Seconds()
	return r, err
}

// An auditor is one audit under way.
type auditor struct {
	*session
	opts AuditOptions
	sums hashers

	mu  sync.Mutex // guards out
	out AuditReport
}

func (a *auditor) run(ctx context.Context, address string) error {
	if err := a.read(ctx); err != nil {
		return err
	}
	sets, err := a.locate(ctx, address)
	if err != nil {
		return err
	}
	incomplete := len(a.report.Failures) > 0
	for i, set := range sets {
		complete, err := a.auditSet(ctx, set, sets[:i])
		if err != nil {
			return err
		}
		incomplete = incomplete || !complete
	}
	if err := a.foreign(ctx); err != nil {
		return err
	}
	if incomplete {
		return fmt.Errorf("%w: documents could not be read", ErrIncomplete)
	}
	return nil
}

// read loads the state, and leaves what a killed run left as it is.
func (a *auditor) read(ctx context.Context) error {
	a.counts = counts{}
	if _, err := load(ctx, a.d.journal, docMirror, &a.mirror); err != nil {
		return err
	}
	if a.mirror.Numbers == nil {
		a.mirror.Numbers = map[string]int{}
	}
	_, err := load(ctx, a.d.journal, docCounts, &a.counts)
	return err
}

// auditSet compares one set. Files that a set before contains have been read.
func (a *auditor) auditSet(ctx context.Context, set *setState, before []*setState) (complete bool, err error) {
	r := &setRun{session: a.session, set: set, stage: newStage(a.d.journal)}
	r.reader = &setReader{d: a.d, set: set, home: a.home, stage: r.stage, warn: a.warn,
		fail: func(uri string, err error) { r.failed++; a.problem(uri, err) }}
	defer func() {
		if cerr := r.stage.clear(context.WithoutCancel(ctx)); err == nil {
			err = cerr
		}
	}()
	if err := r.expected(ctx); err != nil {
		return false, err
	}
	p := &planner{d: a.d, set: set.Number, prune: r.failed == 0, refuse: r.reader.refuse}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(max(a.d.opts.Jobs, 4))
	for act, err := range p.actions(gctx, r.stage) {
		if err != nil {
			_ = g.Wait() // err says more
			return false, err
		}
		if act.verb == verbSkip || act.verb == verbRefuse {
			continue
		}
		if act.want.class != 0 && !act.Gone {
			a.out.Resources++ // only here; findings are counted under the lock
		}
		read := !a.opts.NoContent
		for _, b := range before {
			read = read && !contains(act.held.Sets, b.Number)
		}
		g.Go(func() error { return a.check(gctx, set, &act, read) })
	}
	return r.failed == 0, g.Wait()
}

// expected stages what the set should be: for a set without a Resource List,
// what its changes tell.
func (r *setRun) expected(ctx context.Context) error {
	var at resourcesync.Datetime
	if r.set.Lists != "" {
		snap, err := r.reader.readList(ctx, r.set.Lists)
		if err != nil {
			return err
		}
		at = snap.at
	}
	if r.set.Changes == "" {
		return nil
	}
	fresh := *r.set
	fresh.Cursor, fresh.Seen, fresh.SeenTime = cursor{}, nil, time.Time{}
	c, err := r.reader.readChanges(ctx, at, &fresh, false)
	if err != nil {
		return err
	}
	if gap := r.gap(&c, at); gap != "" {
		r.warn(r.set.Changes, fmt.Sprintf("set %s: %s", r.set.Name, gap))
	}
	return nil
}

// check looks at one resource.
func (a *auditor) check(ctx context.Context, set *setState, act *action, read bool) error {
	f := Finding{URI: act.URI, Path: act.held.Path}
	switch {
	case act.verb == verbRemove || act.verb == verbRelease:
		f.Kind, f.Cause = Extra, "the Source does not list it"
	case !act.isHeld() || !contains(act.held.Sets, set.Number):
		if act.isHeld() { // by another set
			return nil
		}
		f.Kind, f.Cause = Missing, "it was never fetched, or is owed"
	case act.verb == verbFetch && !act.conditional:
		f.Kind, f.Cause = Stale, describeStale(&act.held, &act.want)
	default:
		var err error
		if f.Kind, f.Cause, err = a.file(ctx, act, read); err != nil {
			return err
		}
		if f.Kind == "" && act.conditional {
			f.Kind, f.Cause = Unverifiable, "the Source states neither a hash we know, nor length and lastmod"
		}
	}
	a.find(set.Name, f)
	return nil
}

// file compares the file of a resource that is as the Source says with what we
// know of its bytes.
func (a *auditor) file(ctx context.Context, act *action, read bool) (FindingKind, string, error) {
	h := &act.held
	info, err := a.d.store.Stat(ctx, h.Path)
	switch {
	case ctx.Err() != nil:
		return "", "", ctx.Err()
	case errors.Is(err, blob.ErrNotExist):
		return Missing, "the file is gone", nil
	case err != nil:
		return Corrupt, err.Error(), nil
	case info.Size != h.Length:
		return Corrupt, fmt.Sprintf("the file has %d bytes, it was written with %d", info.Size, h.Length), nil
	case !read || len(h.Hashes) == 0:
		return "", "", nil
	}
	_, got, err := a.sums.hashBlob(ctx, a.d.store, h.Path, algorithmsOf(h.Hashes))
	switch {
	case ctx.Err() != nil:
		return "", "", ctx.Err()
	case err != nil:
		return Corrupt, err.Error(), nil
	}
	for _, was := range h.Hashes {
		if digest := got.Get(was.Algorithm); digest != "" && digest != was.Digest {
			is := resourcesync.Hash{Algorithm: was.Algorithm, Digest: digest}
			return Corrupt, fmt.Sprintf("the file has %s, it was written with %s", is, was), nil
		}
	}
	a.mu.Lock()
	a.out.Verified++
	a.mu.Unlock()
	return "", "", nil
}

func describeStale(h *Held, w *want) string {
	for _, stated := range w.Hashes {
		if digest := h.Hashes.Get(stated.Algorithm); digest != "" && digest != stated.Digest {
			return fmt.Sprintf("the Source states %s, here is %s", stated, resourcesync.Hash{Algorithm: stated.Algorithm, Digest: digest})
		}
	}
	switch {
	case len(h.Hashes) == 0:
		return "in doubt since an interrupted run; sync puts it right"
	case w.Length >= 0 && w.Length != h.Length:
		return fmt.Sprintf("the Source states %d bytes, here are %d", w.Length, h.Length)
	}
	return fmt.Sprintf("the Source states %s as its last modification, here is %s", w.Lastmod, show(h.Lastmod))
}

// find books a finding.
func (a *auditor) find(set string, f Finding) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch f.Kind {
	case "":
		return
	case Missing:
		a.out.Missing++
	case Stale:
		a.out.Stale++
	case Corrupt:
		a.out.Corrupt++
	case Extra:
		a.out.Extra++
	case Foreign:
		a.out.Foreign++
	case Unverifiable:
		a.out.Unverifiable++
	}
	f.URI, f.Path, f.Cause = fetch.Printable(f.URI), fetch.Printable(f.Path), fetch.Printable(f.Cause)
	if len(a.out.Findings) < maxListed && f.Kind != Unverifiable {
		a.out.Findings = append(a.out.Findings, f)
	}
	a.d.emit(Event{Kind: EventFinding, Set: set, URI: f.URI, Path: f.Path, Finding: f})
}

// foreign finds the files that are nobody's: those under whose names nothing
// is held. The names we gave are sorted like everything else that is long.
func (a *auditor) foreign(ctx context.Context) (err error) {
	names := newStage(a.d.journal)
	defer func() {
		if cerr := names.clear(context.WithoutCancel(ctx)); err == nil {
			err = cerr
		}
	}()
	names.addDoc()
	for h, err := range a.d.journal.Held(ctx, "", "") {
		if err == nil {
			err = names.add(ctx, want{URI: h.Path, rank: rank{class: wantListed}})
		}
		if err != nil {
			return err
		}
	}
	next, stop := iter.Pull2(names.wants(ctx))
	defer stop()
	name, err, more := next()
	for info, lerr := range a.d.store.List(ctx, "") {
		if lerr != nil {
			return lerr
		}
		for err == nil && more && name.URI < info.Name {
			name, err, more = next()
		}
		if err != nil {
			return err
		}
		if strings.HasPrefix(info.Name, stateDir+"/") || more && name.URI == info.Name {
			continue
		}
		a.find("", Finding{Kind: Foreign, Path: info.Name, Cause: "not made by lockstep"})
	}
	return err
}
