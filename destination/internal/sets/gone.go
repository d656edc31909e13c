package sets

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/wording"
	"lockstep/destination/report"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/internal/fetch/shown"
)

// Unselected returns the sets that the Source offers and the mirror holds, but that
// are not among those to follow: the selection decides what the mirror contains.
func (m *Mirror) Unselected(ctx context.Context, followed []*State) ([]*State, error) {
	if len(m.Follow) == 0 {
		return nil, nil
	}
	numbers := map[int]bool{}
	for _, set := range followed {
		numbers[set.Number] = true
	}
	var left []*State
	for i := range m.State.Found.Sets {
		f := &m.State.Found.Sets[i]
		n, known := m.State.Numbers[saved.SetURI(f)]
		if !known || numbers[n] || m.Counts[n] == 0 {
			continue
		}
		st, err := load(ctx, m.Journal, saved.SetURI(f), n)
		if err != nil {
			return nil, err
		}
		st.Name, st.Unselected = f.Name, true
		left = append(left, st)
	}
	return left, nil
}

// takeWithdrawn reports the sets that the Source has withdrawn. It returns those to be
// removed: all of them with a baseline, otherwise none. While a document that may list
// sets is unreadable, no set counts as withdrawn.
func (m *Mirror) takeWithdrawn(ctx context.Context, found *discover.Found, t *Taken) ([]*State, error) {
	complete := found.All || found.Robots.URI != "" || found.Page.URI != "" && found.Page.Err == nil
	if len(m.Follow) > 0 || !complete && !m.Baseline {
		return nil, nil // the address names some sets; the others may well exist
	}
	offered := map[string]bool{}
	for i := range found.Sets {
		f := &found.Sets[i]
		if _, known := m.State.Numbers[saved.SetURI(f)]; f.Err != nil && !known {
			return nil, nil // it may be a Source Description that lists the others
		}
		offered[saved.SetURI(f)] = true
	}
	var gone []*State
	for _, uri := range slices.Sorted(maps.Keys(m.State.Numbers)) {
		n := m.State.Numbers[uri]
		if offered[uri] || m.Counts[n] == 0 {
			continue
		}
		st, err := load(ctx, m.Journal, uri, n)
		if err != nil {
			return nil, err
		}
		st.Locate(&discover.Set{})
		if m.Baseline {
			gone = append(gone, st)
			continue
		}
		if t.Withdrawn == nil {
			t.Withdrawn = map[int]bool{}
		}
		t.Withdrawn[n] = true
		m.reportWithdrawn(st)
	}
	return gone, nil
}

// reportWithdrawn reports a withdrawn set whose files stay.
func (m *Mirror) reportWithdrawn(st *State) {
	w := report.WithdrawnSet{URI: shown.Whole(st.URI), Name: fetch.Printable(st.Name), Resources: m.Counts[st.Number]}
	m.Report.Withdrawn = append(m.Report.Withdrawn, w)
	m.Warn(st.URI, fmt.Sprintf("set %s (%s): the Source has withdrawn it; the mirror keeps %s of it; to remove: sync --baseline --max-delete 100",
		w.Name, w.URI, wording.Plural(w.Resources, "resource")))
}
