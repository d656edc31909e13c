package sets

import (
	"lockstep/destination/internal/push"
	"lockstep/destination/internal/saved"
	"lockstep/discover"
)

// Followed are the sets that a Follower keeps in step, by their URIs. Their states are
// kept in memory from one pass to the next.
type Followed map[string]*FollowedSet

// A FollowedSet is one set of a Follower.
type FollowedSet struct {
	Offered *discover.Set // as it was last found; never changed
	State   *State        // nil: it has to be loaded
	Parents push.Parents  // Capability Lists that its notifications name
}

// Update replaces the sets by those that were found. It returns them in two parts:
// those that the Source offers, and those that it no longer offers, which are not
// followed. A set that the Source offers and that could not be read stays.
func (f *Followed) Update(found []*State, source *saved.Mirror) (offered, gone []*State) {
	known := *f
	*f = Followed{}
	for _, st := range found {
		o := source.Offered(st.URI)
		if o == nil {
			gone = append(gone, st)
			continue
		}
		set := known[st.URI]
		if set == nil {
			set = &FollowedSet{}
		}
		set.Offered, set.State = o, st
		(*f)[st.URI] = set
		offered = append(offered, st)
	}
	for uri, set := range known {
		if (*f)[uri] == nil && source.IsUnreadable(uri) {
			(*f)[uri] = set
		}
	}
	return offered, gone
}

// Forget has all states loaded again.
func (f Followed) Forget() {
	for _, set := range f {
		set.State = nil
	}
}

// States returns the states of sets, or nil unless all of them are loaded.
func (f Followed) States(uris []string) []*State {
	states := make([]*State, 0, len(uris))
	for _, uri := range uris {
		set := f[uri]
		if set == nil || set.State == nil {
			return nil
		}
		states = append(states, set.State)
	}
	return states
}
