package destination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"lockstep/blob"
	"lockstep/discover"
	"lockstep/internal/fetch"
)

// A session is one run over all sets.
type session struct {
	d      *Destination
	mirror mirrorState
	counts counts
	home   *url.URL // the Source as the user named it
	report Report
	out    *outbox
	keep   *keeper  // nil: the mirror keeps no versions
	past   *pastRun // the mirror is to be what the collection was; nil: what it is
	untold int      // sets of which nobody can tell what they were
	resume bool     // an earlier run may have left unfinished downloads
	marked bool     // the Journal knows that a run is under way
}

// Sync brings the mirror into step with the Source at address, which may be
// anything that leads to its documents. Each set is compared in full the first
// time, and when its history has a gap; otherwise its changes are applied.
//
// The Report is of use whatever the error. An error is an [ErrRefused] when a
// set was left alone for safety, an [ErrIncomplete] when something could not
// be done and all else was, the context's when it ended, in which case what
// was finished is kept; any other stopped the run.
func (d *Destination) Sync(ctx context.Context, address string) (Report, error) {
	return d.sync(ctx, address, d.deliverer())
}

// deliverer returns what hands changes over, if somebody wants them.
func (d *Destination) deliverer() func(context.Context, []Change) (int, error) {
	if d.opts.Deliver == nil {
		return nil
	}
	return func(ctx context.Context, batch []Change) (int, error) {
		if err := d.opts.Deliver(ctx, slices.Clone(batch)); err != nil {
			return 0, &DeliveryError{err}
		}
		return len(batch), nil
	}
}

// sync is Sync with deliver to take the changes, if not nil: it returns how
// many it took.
func (d *Destination) sync(ctx context.Context, address string, deliver func(context.Context, []Change) (int, error)) (Report, error) {
	s := &session{d: d}
	if at := d.opts.At; !at.IsZero() {
		s.past = &pastRun{at: at, from: d}
	}
	return s.whole(address, deliver, func() error { return s.run(ctx, address) })
}

// whole is a session from its beginning to its end, in which do is done.
func (s *session) whole(address string, deliver func(context.Context, []Change) (int, error), do func() error) (Report, error) {
	d := s.d
	start, requests, bytes := time.Now(), d.client.Requests(), d.client.Bytes()
	s.report = Report{Source: address, Destination: d.opts.Dest, Sets: []string{}, DryRun: d.opts.DryRun}
	if s.past != nil {
		s.report.At, s.report.Missing = s.past.at.UTC(), []Failure{}
	}
	s.out = &outbox{journal: d.journal, deliver: deliver}
	err := do()
	r := s.report
	r.Requests, r.Bytes = d.client.Requests()-requests, d.client.Bytes()-bytes
	r.Elapsed = time.Since(start).Seconds()
	if r.Mode == "" {
		r.Mode = ModeNone
	}
	return r, err
}

func (s *session) run(ctx context.Context, address string) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	sets, err := s.locate(ctx, address)
	if err != nil {
		own, oerr := s.aloneWith(ctx, address, err)
		if own == nil || oerr != nil {
			return cmp.Or(oerr, err)
		}
		return s.runSets(ctx, own)
	}
	left, err := s.unselected(ctx, sets)
	if err != nil {
		return err
	}
	return s.runSets(ctx, append(sets, left...))
}

// runSets brings sets into step.
func (s *session) runSets(ctx context.Context, sets []*setState) error {
	var refused, incomplete error
	for i, set := range sets {
		s.d.emit(Event{Kind: EventSet, Set: set.Name, Progress: Progress{Set: i + 1, Sets: len(sets)}})
		err := s.syncOne(ctx, set)
		switch {
		case err == nil:
		case errors.Is(err, ErrRefused):
			s.report.fail(set.URI, err.Error())
			if refused == nil {
				refused = err
			}
		case errors.Is(err, ErrIncomplete):
			incomplete = cmp.Or(incomplete, err)
			s.tellUntold(set, err, len(sets))
		default:
			return err
		}
		s.until(set)
		if t := set.asOf; !t.IsZero() && (s.report.AsOf.IsZero() || t.Before(s.report.AsOf)) {
			s.report.AsOf = t
		}
	}
	if err := s.close(ctx); err != nil {
		return err
	}
	if err := s.endKeeping(ctx); err != nil {
		return err
	}
	switch {
	case refused != nil:
		return refused
	case incomplete == nil && s.report.Failed+s.report.Refused == 0:
		return nil
	case s.past != nil:
		return s.pastError(incomplete, len(sets))
	}
	return fmt.Errorf("%w: %s", ErrIncomplete, s.report.shortfall())
}

// syncOne brings a set into step, and books what that came to for it alone.
func (s *session) syncOne(ctx context.Context, set *setState) error {
	return s.bring(set, func() error {
		if err := s.syncSet(ctx, set); err != nil {
			return err
		}
		return s.pulled(ctx, set)
	})
}

// bring books what something done for a set comes to.
func (s *session) bring(set *setState, do func() error) error {
	start, bytes := time.Now(), s.d.client.Bytes()
	before := s.report
	s.report.Mode, s.report.Via = "", ""
	err := do()
	r := s.report.since(&before)
	r.URI, r.Name, r.SyncedUntil = set.URI, fetch.Printable(set.Name), set.syncedUntil()
	r.AsOf = set.asOf
	r.Bytes, r.Elapsed = s.d.client.Bytes()-bytes, time.Since(start).Seconds()
	switch {
	case err != nil:
		r.Error = fetch.Printable(err.Error())
	case r.Failed+r.Refused > 0:
		r.Error = fmt.Sprintf("%d failed, %d refused", r.Failed, r.Refused)
	}
	s.report.BySet = append(s.report.BySet, r)
	s.report.Mode, s.report.Via = before.Mode, before.Via
	s.report.effort(r.Mode, r.Via)
	s.d.emit(Event{Kind: EventDone, Set: set.Name, Result: r})
	return err
}

// open reads the state, and puts right what a killed run left.
func (s *session) open(ctx context.Context) error {
	j := s.d.journal
	if _, err := load(ctx, j, docMirror, &s.mirror); err != nil {
		return err
	}
	if s.mirror.Numbers == nil {
		s.mirror.Numbers = map[string]int{}
	}
	s.counts = counts{}
	if _, err := load(ctx, j, docCounts, &s.counts); err != nil {
		return err
	}
	running, err := j.Load(ctx, docOpen)
	if err != nil {
		return err
	}
	if err := s.out.load(ctx); err != nil {
		return err
	}
	if s.resume, s.marked = running != nil, running != nil; s.resume { // else there is no intent either
		if err := s.settleIntent(ctx); err != nil {
			return err
		}
	}
	if !s.d.opts.DryRun {
		if err := s.openKeeper(ctx, !s.resume); err != nil {
			return err
		}
	}
	return s.handOver(ctx)
}

// handOver hands over what an earlier run could not.
func (s *session) handOver(ctx context.Context) error {
	switch {
	case len(s.out.due) == 0 || s.d.opts.DryRun:
		return nil
	case s.out.deliver == nil:
		s.warn("", fmt.Sprintf("%d changes of an earlier run were not handed over yet; the next run that hands over its changes begins with them", len(s.out.due)))
		return nil
	}
	return s.out.send(ctx)
}

// begin notes that files are going to be written.
func (s *session) begin(ctx context.Context) error {
	if s.marked {
		return nil
	}
	s.marked = true
	return s.d.journal.Record(ctx, Batch{Save: map[string][]byte{docOpen: []byte("{}"), docMirror: encode(s.mirror)}})
}

// close tidies up after a run that came to its end.
func (s *session) close(ctx context.Context) error {
	if s.d.opts.DryRun {
		return nil
	}
	if !s.marked {
		return nil
	}
	if sweeper, ok := s.d.store.(blob.Sweeper); ok {
		if err := s.sweep(ctx, sweeper); err != nil {
			return err
		}
	}
	return s.d.journal.Record(ctx, Batch{Save: map[string][]byte{docOpen: nil}})
}

// sweep removes unfinished downloads of what is not wanted any more.
func (s *session) sweep(ctx context.Context, sweeper blob.Sweeper) error {
	paths, err := s.paths()
	if err != nil {
		return err
	}
	var oerr error
	_, err = sweeper.Sweep(ctx, func(yield func(string) bool) {
		for _, n := range s.mirror.Numbers {
			for o, err := range s.d.journal.Owed(ctx, n) {
				if err != nil {
					oerr = err
					return
				}
				if path, err := paths.Path(o.URI); err == nil && !yield(path) {
					return
				}
			}
		}
	})
	return errors.Join(oerr, err)
}

// paths returns the mapping of this mirror.
func (s *session) paths() (*Paths, error) {
	origin := s.mirror.Origin
	if origin == "" {
		origin = "file://"
	}
	return NewPaths(PathOptions{Origin: origin, Portable: s.d.opts.Portable, Map: s.d.opts.Maps})
}

// locate finds the Source's sets, and returns the states of those to follow.
func (s *session) locate(ctx context.Context, address string) ([]*setState, error) {
	found, changed, err := s.find(ctx, address)
	if err != nil {
		return nil, err
	}
	return s.takeOver(ctx, address, found, changed)
}

// goHome notes where the Source is, as the user named it.
func (s *session) goHome(address string) {
	if s.home = discover.Home(address); s.home != nil && s.home.Scheme == "" {
		s.home.Scheme = "http"
	}
}

// offered returns what was found of a set, or nil.
func (s *session) offered(uri string) *discover.Set {
	if s.mirror.Found == nil {
		return nil
	}
	for i := range s.mirror.Found.Sets {
		if f := &s.mirror.Found.Sets[i]; setURI(f) == uri {
			return f
		}
	}
	return nil
}

// rest is close for a session that goes on.
func (s *session) rest(ctx context.Context) error {
	if err := s.close(ctx); err != nil {
		return err
	}
	s.marked, s.resume = false, false
	return nil
}

// takeOver returns the states of the sets to follow of what was found.
func (s *session) takeOver(ctx context.Context, address string, found *discover.Found, changed bool) ([]*setState, error) {
	s.goHome(address)
	known := len(s.mirror.Numbers) == 0
	for i := range found.Sets {
		_, ok := s.mirror.Numbers[setURI(&found.Sets[i])]
		known = known || ok
	}
	if !known && !s.d.opts.Baseline {
		return nil, &RefusedError{
			Reason: fmt.Sprintf("%s is another Source than the one mirrored here (%s)", fetch.Printable(address), s.mirrored()),
			Hint:   "if the mirror is to become one of the other Source, run again with --baseline",
		}
	}
	chosen, err := s.choose(found)
	if err != nil {
		return nil, err
	}
	sets := make([]*setState, 0, len(chosen))
	for _, f := range chosen {
		if f.Err != nil {
			s.problem(f.CapabilityList, f.Err)
			continue
		}
		st, err := s.loadSet(ctx, f)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(sets, func(o *setState) bool { return o.Number == st.Number }) { // named twice
			sets = append(sets, st)
		}
	}
	if len(sets) == 0 {
		return nil, fmt.Errorf("%w: no set could be read: %w", ErrIncomplete, chosen[0].Err)
	}
	gone, err := s.vanished(ctx, found)
	if err != nil {
		return nil, err
	}
	s.mirror.Found = found
	if changed && !s.d.opts.DryRun {
		err = s.d.journal.Record(ctx, Batch{Save: map[string][]byte{docMirror: encode(s.mirror)}})
	}
	return append(sets, gone...), err
}

// find goes the way to the documents, or looks whether it is as it was.
func (s *session) find(ctx context.Context, address string) (found *discover.Found, changed bool, err error) {
	s.d.emit(Event{Kind: EventDocument, URI: address})
	if was := s.mirror.Found; was != nil && was.Address == address && !s.d.opts.Baseline {
		if found, changed, err = discover.Refresh(ctx, s.d.client, was); err == nil || ctx.Err() != nil {
			return found, changed, err
		}
	}
	if found, err = discover.Find(ctx, s.d.client, address); err != nil {
		return nil, false, err
	}
	for _, step := range found.Way[:min(len(found.Way), maxListed)] {
		s.report.Way = append(s.report.Way, step.String())
	}
	if s.mirror.Origin == "" {
		s.mirror.Origin = originOf(found)
	}
	return found, true, nil
}

// originOf returns scheme and authority of the Source.
func originOf(found *discover.Found) string {
	if found.Origin != "" {
		return found.Origin
	}
	for i := range found.Sets {
		if u, err := url.Parse(setURI(&found.Sets[i])); err == nil && u.Host != "" {
			return u.Scheme + "://" + u.Host
		}
	}
	return "" // a file; the first resource will tell
}

// setURI names a set: by its Capability List, else by the only list known.
func setURI(f *discover.Set) string {
	if f.CapabilityList != "" {
		return f.CapabilityList
	}
	for _, c := range f.Capabilities {
		return c.URI
	}
	return f.Name
}

func (s *session) mirrored() string {
	if s.mirror.Found != nil {
		return fetch.Printable(s.mirror.Found.Address)
	}
	return "unknown"
}

// choose returns the sets the user selected.
func (s *session) choose(found *discover.Found) ([]*discover.Set, error) {
	var chosen []*discover.Set
	var names []string
	matched := make([]bool, len(s.d.opts.Sets))
	for i := range found.Sets {
		f := &found.Sets[i]
		names = append(names, fetch.Printable(f.Name))
		wanted := len(s.d.opts.Sets) == 0
		for k, sel := range s.d.opts.Sets {
			if sel == f.Name || sel == setURI(f) {
				matched[k], wanted = true, true
			}
		}
		if wanted {
			chosen = append(chosen, f)
		}
	}
	if k := slices.Index(matched, false); k >= 0 {
		return nil, &SetError{Name: s.d.opts.Sets[k], Offered: names}
	}
	return chosen, nil
}

// A SetError reports a set that was asked for and that the Source does not offer.
type SetError struct {
	Name    string
	Offered []string
}

func (e *SetError) Error() string {
	return fmt.Sprintf("set %q: the Source offers %s", e.Name, strings.Join(e.Offered, ", "))
}

// loadSet reads the state of a set, and takes over where its documents are now.
func (s *session) loadSet(ctx context.Context, f *discover.Set) (*setState, error) {
	uri := setURI(f)
	n, ok := s.mirror.Numbers[uri]
	if !ok {
		for _, used := range s.mirror.Numbers {
			n = max(n, used)
		}
		n++
		s.mirror.Numbers[uri] = n
	}
	st := &setState{}
	if _, err := load(ctx, s.d.journal, fmt.Sprint(docSet, n), st); err != nil {
		return nil, err
	}
	st.URI, st.Name, st.Number = uri, f.Name, n
	st.locate(f)
	var err error
	if st.push, err = loadPush(ctx, s.d.journal, n); err != nil {
		return nil, err
	}
	s.report.Sets = append(s.report.Sets, uri)
	return st, nil
}

// vanished returns the sets the Source no longer has. Their resources stay,
// unless the user wants the mirror to go where the Source is.
func (s *session) vanished(ctx context.Context, found *discover.Found) ([]*setState, error) {
	if len(s.d.opts.Sets) > 0 || !found.All && !s.d.opts.Baseline {
		return nil, nil // we were pointed at some, the others may well exist
	}
	offered := map[string]bool{}
	for i := range found.Sets {
		offered[setURI(&found.Sets[i])] = true
	}
	var gone []*setState
	for uri, n := range s.mirror.Numbers {
		if offered[uri] || s.counts[n] == 0 {
			continue
		}
		if !s.d.opts.Baseline {
			s.report.warn(fmt.Sprintf("set %s: the Source no longer offers it; its resources were kept", fetch.Printable(uri)))
			continue
		}
		st := &setState{}
		if _, err := load(ctx, s.d.journal, fmt.Sprint(docSet, n), st); err != nil {
			return nil, err
		}
		st.URI, st.Number = uri, n
		st.locate(&discover.Set{})
		gone = append(gone, st)
	}
	return gone, nil
}

// unselected returns the sets that are offered and held, but no longer among
// those to follow: what the mirror is of, the selection says.
func (s *session) unselected(ctx context.Context, followed []*setState) ([]*setState, error) {
	if len(s.d.opts.Sets) == 0 || s.d.compare {
		return nil, nil
	}
	numbers := map[int]bool{}
	for _, set := range followed {
		numbers[set.Number] = true
	}
	var left []*setState
	for i := range s.mirror.Found.Sets {
		f := &s.mirror.Found.Sets[i]
		n, known := s.mirror.Numbers[setURI(f)]
		if !known || numbers[n] || s.counts[n] == 0 {
			continue
		}
		st := &setState{}
		if _, err := load(ctx, s.d.journal, fmt.Sprint(docSet, n), st); err != nil {
			return nil, err
		}
		st.URI, st.Name, st.Number, st.unselected = setURI(f), f.Name, n, true
		left = append(left, st)
	}
	return left, nil
}

// until books how far a set is: the Report tells of the one least far.
func (s *session) until(set *setState) {
	s.keep.mark(set)
	w := set.syncedUntil()
	if w.IsZero() {
		return
	}
	if s.report.SyncedUntil.IsZero() || w.Before(s.report.SyncedUntil) {
		s.report.SyncedUntil = w
	}
}

// problem books a document that could not be read.
func (s *session) problem(uri string, err error) {
	s.report.fail(uri, err.Error())
	s.d.emit(Event{Kind: EventFailed, URI: uri, Err: err})
}

func (s *session) warn(uri, text string) {
	s.report.warn(text)
	s.d.emit(Event{Kind: EventWarning, URI: uri, Err: errors.New(text)})
}
