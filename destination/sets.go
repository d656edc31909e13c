package destination

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"lockstep/destination/internal/push"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/discover"
	"lockstep/internal/fetch"
)

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
	s.file = discover.FileURI(address)
}

// offered returns what was found of a set, or nil.
func offered(m *saved.Mirror, uri string) *discover.Set {
	if m.Found == nil {
		return nil
	}
	for i := range m.Found.Sets {
		if f := &m.Found.Sets[i]; setURI(f) == uri {
			return f
		}
	}
	return nil
}

// takeOver returns the states of the sets to follow of what was found.
func (s *session) takeOver(ctx context.Context, address string, found *discover.Found, changed bool) ([]*setState, error) {
	s.goHome(address)
	known := len(s.mirror.Numbers) == 0 || isBlank(&s.mirror, s.counts)
	foreignSet(found)
	for i := range found.Sets {
		_, ok := s.mirror.Numbers[setURI(&found.Sets[i])]
		known, s.own.Ours = known || ok, s.own.Ours || ok
	}
	if !known && !s.d.opts.Baseline {
		return nil, &RefusedError{
			Reason: fmt.Sprintf("%s is another Source than the one mirrored here (%s)", fetch.Printable(fetch.WithoutUser(address)), mirrored(&s.mirror)),
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
			s.unreadable(f)
			continue
		}
		st, err := s.loadSet(ctx, f)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(sets, func(o *setState) bool { return o.Number == st.Number }) { // named twice
			sets = append(sets, st)
		}
		st.Foreign = found.Foreign
	}
	if found.Foreign == nil {
		s.mirror.Maps = nil
	}
	if len(sets) == 0 {
		return nil, fmt.Errorf("%w: no set could be read: %w", ErrIncomplete, chosen[0].Err)
	}
	gone, err := s.withdrawnSets(ctx, found)
	if err != nil {
		return nil, err
	}
	s.mirror.Found = found
	if changed && !s.d.opts.DryRun {
		err = s.d.journal.Record(ctx, journal.Batch{Save: map[string][]byte{saved.DocMirror: saved.Encode(s.mirror)}})
	}
	return append(sets, gone...), err
}

// unreadable reports a set whose Capability List could not be read: the others
// are synchronized, and the run ends with [ErrIncomplete].
func (s *session) unreadable(f *discover.Set) {
	s.problem(setURI(f), f.Err)
	r := SetReport{URI: setURI(f), Name: fetch.Printable(f.Name), Mode: ModeNone, Error: fetch.Printable(f.Err.Error())}
	s.report.AddUnreadSet(r)
	s.d.emit(Event{Kind: EventDone, Set: f.Name, Result: r})
}

// find follows the address to the documents. A mirror keeps to the documents that
// it was made from: see [discover.Refresh].
func (s *session) find(ctx context.Context, address string) (found *discover.Found, changed bool, err error) {
	s.d.emit(Event{Kind: EventDocument, URI: address})
	if was := s.mirror.Found; was != nil && was.Address == address && !s.d.opts.Baseline {
		return discover.Refresh(ctx, s.d.client, was)
	}
	if found, err = discover.Find(ctx, s.d.client, address); err != nil {
		return nil, false, err
	}
	found.KeepNames(s.mirror.Found)
	for _, step := range found.Way[:min(len(found.Way), maxListed)] {
		s.report.Way = append(s.report.Way, step.String())
	}
	if s.mirror.Origin == "" || isBlank(&s.mirror, s.counts) {
		s.mirror.Origin = originOf(found)
	}
	return found, true, nil
}

// isBlank reports whether a mirror of an address that is to be harvested holds
// nothing: the address may be mistyped.
func isBlank(m *saved.Mirror, held saved.Counts) bool {
	return m.Found != nil && m.Found.Foreign != nil && held.Total() == 0
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
	return "" // a file; the origin is derived from the first resource
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

// mirrored names the Source that is mirrored, for messages.
func mirrored(m *saved.Mirror) string {
	if m.Found != nil {
		return fetch.Printable(m.Found.Address)
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
	if _, err := saved.Load(ctx, s.d.journal, saved.DocSet(n), st); err != nil {
		return nil, err
	}
	st.URI, st.Name, st.Number = uri, f.Name, n
	st.Locate(f)
	var err error
	if st.push, err = push.Load(ctx, s.d.journal, n); err != nil {
		return nil, err
	}
	s.report.Sets = append(s.report.Sets, uri)
	return st, nil
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
		if _, err := saved.Load(ctx, s.d.journal, saved.DocSet(n), st); err != nil {
			return nil, err
		}
		st.URI, st.Name, st.Number, st.Unselected = setURI(f), f.Name, n, true
		left = append(left, st)
	}
	return left, nil
}
