package atom

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"lockstep/catalog"
	"lockstep/internal/newerstate"
	"lockstep/source/internal/names"
)

// stateVersion numbers the layout of state. Older ones are read, newer
// refused.
const stateVersion = 1

// A state is what a Source remembers of a set's Atom-PMH feed, in one JSON
// blob. It is written once for each publication, before the subscription document
// is switched: its bytes show which of Current and Planned is true.
type state struct {
	Version        int            `json:"version"`
	CapabilityList string         `json:"capability_list"` // the set; documents of another base URL are not ours to continue
	Current        *feed          `json:"current,omitempty"`
	Planned        *feed          `json:"planned,omitempty"`
	Grouped        groupMap       `json:"grouped,omitempty"` // what Planned changes of which resources belong together
	Retired        []retiredChain `json:"retired,omitempty"`
	Dropped        []string       `json:"dropped,omitempty"` // archives of publications that were cut short; see dropPlanned

	known bool // it was read as it had been written: chains it does not name were never published

	// The subscription document was replaced after all of Dropped were.
	replaced bool
}

// A feed is a published feed.
type feed struct {
	ID       string `json:"id"`
	Title    string `json:"title"`
	Author   string `json:"author"`
	Complete bool   `json:"complete,omitempty"`

	Chain    string `json:"chain"`            // instant in the names of its archives
	Number   int    `json:"number"`           // highest number given to one of them
	Archives int    `json:"archives"`         // how many there are
	Newest   string `json:"newest,omitempty"` // name of the newest
	Entries  int64  `json:"entries"`          // in all documents
	Begun    int64  `json:"begun"`            // of these when the chain was
	Groups   string `json:"groups,omitempty"` // instant in the names of what is known of groups; empty: there are none
	Last     int64  `json:"last"`             // newest updated, in milliseconds; noTime: there was none
	Size     int64  `json:"size"`             // of the subscription document
	Sum      string `json:"sum"`              // sha-256 of it

	Stamp       time.Time   `json:"stamp"` // modification time of the subscription document; rises
	Through     catalog.Seq `json:"through"`
	ThroughTime time.Time   `json:"through_time,omitzero"` // of that change; zero if it is not known
	Seen        catalog.Seq `json:"seen,omitempty"`        // newest change of a resource that was read when the feed was rebuilt: perhaps above Through
}

// A retiredChain is a chain of archives that no subscription document leads to
// any more.
type retiredChain struct {
	Chain string    `json:"chain"`
	Gone  time.Time `json:"gone"`
}

// load returns what is known of the set's feed; fresh says that it was not
// known before, by this process. A state whose feed is not there, or other than
// was left, has no Current, and lost says what was lost.
func (s *Feeds) load(ctx context.Context, set string) (st *state, lost *feed, fresh bool, err error) {
	if st := s.states[set]; st != nil {
		return st, nil, false, nil
	}
	st = &state{Version: stateVersion, CapabilityList: s.docs.CapabilityList(set)}
	data, _, err := s.docs.ReadBlob(ctx, names.Feed(set).State())
	if err != nil {
		return nil, nil, true, err
	}
	if data != nil {
		known := new(state)
		switch err := json.Unmarshal(data, known); {
		case err != nil:
			s.docs.Log.WarnContext(ctx, "state of the feed is unreadable and will be rebuilt", slog.String("set", set), slog.Any("err", err))
		case known.Version > stateVersion:
			return nil, nil, true, newerstate.Document(names.Feed(set).State(), known.Version, stateVersion)
		case known.CapabilityList == st.CapabilityList && known.sound(set):
			st, st.known = known, true
		}
	}
	sum, err := s.docs.Digest(ctx, names.Feed(set).Document())
	if err != nil {
		return nil, nil, true, err
	}
	planned, current := st.Planned, st.Current
	st.Planned = nil
	switch {
	case planned != nil && sum == planned.Sum:
		st.Current, st.replaced = planned, true
		if err := s.group(ctx, set, planned.Groups, st.Grouped); err != nil { // perhaps once more
			return nil, nil, true, err
		}
	case current != nil && sum == current.Sum:
		s.dropPlanned(set, st, planned)
	case current != nil || sum != "":
		st.Current = nil
		if lost = planned; lost == nil {
			lost = current
		}
		if lost == nil {
			lost = &feed{Last: noTime}
		}
	} // else nothing was published, or cut short before anybody could see it
	st.Grouped = nil
	return st, lost, true, nil
}

// dropPlanned has the archives of a publication removed that was cut short before
// any client could know of them, and sees to it that their names are not used again. Its
// subscription document may still be on the way to the store, and takes effect if it arrives
// before the next one: until then the archives stay.
func (s *Feeds) dropPlanned(set string, st *state, planned *feed) {
	switch {
	case planned == nil:
	case planned.Complete: // it has no archives
	case planned.Chain != st.Current.Chain:
		st.Retired = append(st.Retired, retiredChain{planned.Chain, s.docs.Now()})
	default:
		for n := st.Current.Number + 1; n <= planned.Number; n++ {
			st.Dropped = append(st.Dropped, names.Feed(set).Archive(planned.Chain, n))
		}
		st.Current.Number = max(st.Current.Number, planned.Number)
	}
}

// sound reports whether st can be the state of the set's feed: only documents of
// ours are ever read or removed for it.
func (st *state) sound(set string) bool {
	for _, f := range []*feed{st.Current, st.Planned} {
		if f != nil && (!names.FeedChain.MatchString(f.Chain) || f.Number < 0 || f.Through < 0 || f.Sum == "" ||
			f.Newest != "" && names.Feed(set).ArchiveChain(f.Newest) != f.Chain) {
			return false
		}
	}
	for _, r := range st.Retired {
		if !names.FeedChain.MatchString(r.Chain) {
			return false
		}
	}
	for _, name := range st.Dropped {
		if names.Feed(set).ArchiveChain(name) == "" {
			return false
		}
	}
	return true
}

// plan says in the state that the subscription document is about to be that
// of next.
func (s *Feeds) plan(ctx context.Context, set string, st *state, next *feed, grouped groupMap) error {
	planned := *st
	planned.Planned, planned.Grouped = next, grouped
	data, err := json.MarshalIndent(&planned, "", "\t")
	if err != nil {
		return fmt.Errorf("write %s: %w", names.Feed(set).State(), err)
	}
	return s.docs.CommitBlob(ctx, names.Feed(set).State(), append(data, '\n'), time.Time{})
}
