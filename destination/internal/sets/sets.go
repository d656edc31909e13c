// Package sets finds the sets of a Source, chooses those that a mirror follows, and
// loads their states. It notices sets that the Source has withdrawn or that the user
// no longer selects.
package sets

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"lockstep/destination/internal/counting"
	"lockstep/destination/internal/push"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/destination/report"
	"lockstep/discover"
	"lockstep/internal/fetch"
)

// A Mirror is the mirror whose sets are found.
type Mirror struct {
	Client  *fetch.Client
	Journal journal.Journal
	State   *saved.Mirror // numbers that new sets get are added to it
	Counts  saved.Counts

	Follow   []string // names or URIs of the sets to follow; none: all
	Baseline bool     // find the documents again, accept another Source, and remove withdrawn sets
	DryRun   bool     // record nothing

	Report *counting.Report
	Emit   func(report.Event)
	Warn   func(uri, text string)
	Fail   func(uri string, err error) // a document could not be read
}

// Home returns the address of the Source as the user named it. A file has none; its
// URI is returned instead.
func Home(address string) (home *url.URL, file string) {
	if home = discover.Home(address); home != nil && home.Scheme == "" {
		home.Scheme = "http"
	}
	return home, discover.FileURI(address)
}

// Find follows the address to the documents. A mirror keeps to the documents that it
// was made from: see [discover.Refresh].
func (m *Mirror) Find(ctx context.Context, address string) (found *discover.Found, changed bool, err error) {
	m.Emit(report.Event{Kind: report.EventDocument, URI: address})
	if was := m.State.Found; was != nil && was.Address == address && !m.Baseline {
		return discover.Refresh(ctx, m.Client, was)
	}
	if found, err = discover.Find(ctx, m.Client, address); err != nil {
		return nil, false, err
	}
	found.KeepNames(m.State.Found)
	for _, step := range found.Way[:min(len(found.Way), report.MaxListed)] {
		m.Report.Way = append(m.Report.Way, step.String())
	}
	if found.Absent {
		m.Warn(address, fmt.Sprintf("there is nothing at %s: the documents of the site are used, which may be those of other collections; see 'lockstep explore %[1]s'", fetch.Printable(found.Address)))
	}
	if m.State.Origin == "" || m.isUnproven() {
		m.State.Origin = originOf(found)
	}
	return found, true, nil
}

// Taken are the sets that a run is to bring into step.
type Taken struct {
	Sets      []*State
	Known     bool         // the mirror has had one of the sets of the Source before
	Withdrawn map[int]bool // numbers of the sets that the Source has withdrawn, and whose files stay
}

// Take makes what was found at an address that of the mirror, and returns the sets to
// follow. Sets that the Source has withdrawn are among them if they are to be removed.
func (m *Mirror) Take(ctx context.Context, address string, found *discover.Found, changed bool) (Taken, error) {
	var t Taken
	accepted := len(m.State.Numbers) == 0 || m.isUnproven()
	if f := found.Foreign; f != nil { // so that it has a number and a state as other sets do
		found.Sets = []discover.Set{{Name: f.URI}}
	}
	for i := range found.Sets {
		_, known := m.State.Numbers[saved.SetURI(&found.Sets[i])]
		t.Known = t.Known || known
	}
	if !accepted && !t.Known && !m.Baseline {
		return t, &report.RefusedError{
			Reason: fmt.Sprintf("%s is another Source than the one mirrored here%s", fetch.Printable(fetch.WithoutUser(address)), m.difference(address, found)),
			Hint:   "if the mirror is to become one of the other Source, run sync with --baseline", Consent: "--baseline",
		}
	}
	chosen, err := m.Choose(found)
	if err != nil {
		return t, err
	}
	t.Sets = make([]*State, 0, len(chosen))
	for _, f := range chosen {
		if f.Err != nil {
			m.unreadable(f)
			continue
		}
		st, err := m.Load(ctx, f)
		if err != nil {
			return t, err
		}
		if !slices.ContainsFunc(t.Sets, func(o *State) bool { return o.Number == st.Number }) { // named twice
			t.Sets = append(t.Sets, st)
		}
		st.Foreign = found.Foreign
	}
	if found.Foreign == nil {
		m.State.Maps = nil
	}
	if found.Page.Err != nil && len(m.Follow) == 0 {
		m.unreadable(&discover.Set{CapabilityList: found.Page.URI, Err: found.Page.Err})
	}
	if len(t.Sets) == 0 {
		return t, fmt.Errorf("%w: no set could be read: %w", report.ErrIncomplete, chosen[0].Err)
	}
	gone, err := m.takeWithdrawn(ctx, found, &t)
	if err != nil {
		return t, err
	}
	t.Sets = append(t.Sets, gone...)
	m.State.Found = found
	if changed && !m.DryRun {
		err = m.Journal.Record(ctx, journal.Batch{Save: map[string][]byte{saved.DocMirror: saved.Encode(m.State)}})
	}
	return t, err
}

// unreadable reports a set whose Capability List could not be read: the others are
// synchronized, and the run ends with [report.ErrIncomplete].
func (m *Mirror) unreadable(f *discover.Set) {
	m.Fail(saved.SetURI(f), f.Err)
	r := report.SetReport{URI: saved.SetURI(f), Name: fetch.Printable(f.Name), Mode: report.ModeNone, Error: fetch.Printable(f.Err.Error())}
	m.Report.AddUnreadSet(r)
	m.Emit(report.Event{Kind: report.EventDone, Set: f.Name, Result: r})
}

// isUnproven reports whether a mirror of an address that is to be harvested holds
// nothing: the address may be mistyped.
func (m *Mirror) isUnproven() bool {
	return m.State.Found != nil && m.State.Found.Foreign != nil && m.Counts.Total() == 0
}

// originOf returns scheme and authority of the Source.
func originOf(found *discover.Found) string {
	if found.Origin != "" {
		return found.Origin
	}
	for i := range found.Sets {
		if u, err := url.Parse(saved.SetURI(&found.Sets[i])); err == nil && u.Host != "" {
			return u.Scheme + "://" + u.Host
		}
	}
	return "" // a file; the origin is derived from the first resource
}

// difference says by what another Source, found at an address, was recognized.
func (m *Mirror) difference(address string, found *discover.Found) string {
	address = fetch.Printable(fetch.WithoutUser(address))
	if m.source() != address || m.State.Found == nil || len(m.State.Found.Sets) == 0 || len(found.Sets) == 0 {
		return " (" + m.source() + ")"
	}
	was, is := saved.SetURI(&m.State.Found.Sets[0]), saved.SetURI(&found.Sets[0])
	return fmt.Sprintf(": its Capability List has changed from %s to %s", fetch.Printable(was), fetch.Printable(is))
}

// source names the Source that is mirrored, for messages.
func (m *Mirror) source() string {
	if m.State.Found != nil {
		return fetch.Printable(m.State.Found.Address)
	}
	return "unknown"
}

// Choose returns the sets that the user selected.
func (m *Mirror) Choose(found *discover.Found) ([]*discover.Set, error) {
	var chosen []*discover.Set
	var names []string
	matched := make([]bool, len(m.Follow))
	for i := range found.Sets {
		f := &found.Sets[i]
		names = append(names, fetch.Printable(f.Name))
		selected := len(m.Follow) == 0
		for k, sel := range m.Follow {
			if sel == f.Name || sel == saved.SetURI(f) {
				matched[k], selected = true, true
			}
		}
		if selected {
			chosen = append(chosen, f)
		}
	}
	if k := slices.Index(matched, false); k >= 0 {
		return nil, &report.SetError{Name: m.Follow[k], Offered: names}
	}
	return chosen, nil
}

// Load reads the state of a set, and adopts the present addresses of its documents.
func (m *Mirror) Load(ctx context.Context, f *discover.Set) (*State, error) {
	uri := saved.SetURI(f)
	n, ok := m.State.Numbers[uri]
	if !ok {
		for _, used := range m.State.Numbers {
			n = max(n, used)
		}
		n++
		m.State.Numbers[uri] = n
	}
	st, err := load(ctx, m.Journal, uri, n)
	if err != nil {
		return nil, err
	}
	st.Name = f.Name
	st.Locate(f)
	if st.Push, err = push.Load(ctx, m.Journal, n); err != nil {
		return nil, err
	}
	m.Report.Sets = append(m.Report.Sets, uri)
	return st, nil
}
