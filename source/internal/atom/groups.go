package atom

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"lockstep/source/internal/names"
)

// A group is what a resource was in the feed last, where that is not a record
// of its own under an identifier made of its URI. A deletion says no more than
// which resource is gone, so this must be remembered.
type group struct {
	Main    string   `json:"main,omitempty"`    // the resource it was a representation of; empty: it is the record
	ID      string   `json:"id,omitempty"`      // of the record, where it was given one
	Members []string `json:"members,omitempty"` // further representations of the record
}

func (g *group) plain() bool {
	return g == nil || g.Main == "" && g.ID == "" && len(g.Members) == 0
}

func (g *group) equal(o *group) bool {
	if g.plain() || o.plain() {
		return g.plain() == o.plain()
	}
	return g.Main == o.Main && g.ID == o.ID && slices.Equal(g.Members, o.Members)
}

// groupMap holds groups by the URIs of the resources; one that is nil is no more.
// Under the key of an identifier that was given, its Members are the resources that
// have it.
type groupMap map[string]*group

// ownersKey is no URI.
func ownersKey(id string) string { return "\x00" + id }

// groupParts is how many blobs groups are kept in: a change writes one for each
// resource it is about.
const groupParts = 1024

func groupPart(uri string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(uri)) // it never fails
	return int(h.Sum32() % groupParts)
}

// readGroups returns a part of the groups of a chain.
func (s *Feeds) readGroups(ctx context.Context, set, chain string, part int) (groupMap, error) {
	all := make(groupMap)
	name := names.Feed(set).Group(chain, part)
	data, _, err := s.docs.ReadBlob(ctx, name)
	if err != nil || data == nil {
		return all, err
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("read %s: %w: %w", name, errLost, err)
	}
	return all, nil
}

// group makes changed true of the groups of a chain. It may be repeated.
func (s *Feeds) group(ctx context.Context, set, chain string, changed groupMap) error {
	uris := slices.SortedFunc(maps.Keys(changed), func(a, b string) int {
		return cmp.Or(cmp.Compare(groupPart(a), groupPart(b)), cmp.Compare(a, b))
	})
	for len(uris) > 0 {
		part := groupPart(uris[0])
		n := 0
		all, err := s.readGroups(ctx, set, chain, part)
		if err != nil {
			return err
		}
		for ; n < len(uris) && groupPart(uris[n]) == part; n++ {
			if g := changed[uris[n]]; g.plain() {
				delete(all, uris[n])
			} else {
				all[uris[n]] = g
			}
		}
		uris = uris[n:]
		if err := s.writeGroups(ctx, set, chain, part, all); err != nil {
			return err
		}
	}
	return nil
}

func (s *Feeds) writeGroups(ctx context.Context, set, chain string, part int, all groupMap) error {
	name := names.Feed(set).Group(chain, part)
	data, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return s.docs.CommitBlob(ctx, name, append(data, '\n'), time.Time{})
}

// dropGroups removes the groups of all chains but one.
func (s *Feeds) dropGroups(ctx context.Context, set, but string) error {
	var old []string
	for info, err := range s.docs.List(ctx, names.Feed(set).GroupPrefix()) {
		if err != nil {
			return err
		}
		if but == "" || info.Name < names.Feed(set).Group(but, 0) || info.Name > names.Feed(set).Group(but, groupParts) {
			old = append(old, info.Name)
		}
	}
	if len(old) == 0 {
		return nil
	}
	return s.docs.Remove(ctx, old...)
}

// groupCached is how many parts a groupCache holds.
const groupCached = 64

// A groupCache reads groups as they are asked for.
type groupCache struct {
	feeds      *Feeds
	set, chain string
	none       bool // there are no groups
	parts      map[int]groupMap
}

// get returns what a resource was in the feed; nil: a record under an identifier
// made of its URI, or not at all.
func (c *groupCache) get(ctx context.Context, uri string) (*group, error) {
	if c.none {
		return nil, nil
	}
	part := groupPart(uri)
	all, ok := c.parts[part]
	if !ok {
		var err error
		if all, err = c.feeds.readGroups(ctx, c.set, c.chain, part); err != nil {
			return nil, err
		}
		if c.parts == nil || len(c.parts) >= groupCached {
			c.parts = make(map[int]groupMap)
		}
		c.parts[part] = all
	}
	return all[uri], nil
}
