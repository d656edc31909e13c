package destination

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/wording"
	"lockstep/discover"
	"lockstep/internal/fetch"
)

// withdrawnSets reports the sets that the Source has withdrawn, and returns those
// to be removed: all of them with Options.Baseline, else none. While a document
// that may list sets is unreadable, no set counts as withdrawn.
func (s *session) withdrawnSets(ctx context.Context, found *discover.Found) ([]*setState, error) {
	if len(s.d.opts.Sets) > 0 || !found.All && !s.d.opts.Baseline {
		return nil, nil // the address names some sets; the others may well exist
	}
	offered := map[string]bool{}
	for i := range found.Sets {
		f := &found.Sets[i]
		if _, known := s.mirror.Numbers[setURI(f)]; f.Err != nil && !known {
			return nil, nil // it may be a Source Description that lists the others
		}
		offered[setURI(f)] = true
	}
	var gone []*setState
	for _, uri := range slices.Sorted(maps.Keys(s.mirror.Numbers)) {
		n := s.mirror.Numbers[uri]
		if offered[uri] || s.counts[n] == 0 {
			continue
		}
		st := &setState{}
		if _, err := saved.Load(ctx, s.d.journal, saved.DocSet(n), st); err != nil {
			return nil, err
		}
		st.URI, st.Number = uri, n
		st.Locate(&discover.Set{})
		if s.d.opts.Baseline {
			gone = append(gone, st)
			continue
		}
		s.withdraw(st)
	}
	return gone, nil
}

// withdraw reports a set whose files stay.
func (s *session) withdraw(st *setState) {
	if s.withdrawn == nil {
		s.withdrawn = map[int]bool{}
	}
	s.withdrawn[st.Number] = true
	w := WithdrawnSet{URI: fetch.Printable(st.URI), Name: fetch.Printable(st.Name), Resources: s.counts[st.Number]}
	s.report.Withdrawn = append(s.report.Withdrawn, w)
	s.warn(st.URI, fmt.Sprintf("set %s (%s): the Source has withdrawn it; the mirror keeps %s of it; to remove: sync --baseline --max-delete 100",
		w.Name, w.URI, wording.Plural(w.Resources, "resource")))
}
