package description

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"lockstep/atompmh"
	"lockstep/blob"
	"lockstep/resourcesync"
	"lockstep/source/internal/document"
	"lockstep/source/internal/names"
	"lockstep/source/internal/notify"
)

// A capable is a document that a Capability List names if it is there.
type capable struct {
	name       string
	capability resourcesync.Capability
}

func capabilities(set Set) []capable {
	all := []capable{
		{names.Set(set.Name).ResourceList(), resourcesync.ResourceList},
		{names.Set(set.Name).ResourceDump(), resourcesync.ResourceDump},
		{names.Set(set.Name).ChangeList(), resourcesync.ChangeList},
		{names.Set(set.Name).ChangeDump(), resourcesync.ChangeDump},
	}
	for _, c := range names.Archivable { // RA-ADV-01
		if set.Archive(c) {
			all = append(all, capable{names.Set(set.Name).Archive(c), names.ArchiveOf(c)})
		}
	}
	return all
}

// Name makes the Capability List of a set name exactly the documents that are
// there (RS-AMB-21), except those in without: they are about to be removed. It is
// called whenever an entry document came into being, and
// before one goes. While it has nothing to change, nothing is written.
//
// It may be called at the same time as Publish: it has a lock of its own.
func (s *Documents) Name(ctx context.Context, name string, without ...string) (written bool, err error) {
	set := s.sets[name]
	s.naming.Lock()
	defer s.naming.Unlock()
	there, err := s.find(ctx, set, without)
	if err != nil {
		return false, fmt.Errorf("publish capability list: %w", err)
	}
	defer func() {
		if err == nil {
			s.offer(set.Name, there)
		}
	}()
	feed := false
	if set.Feed {
		_, err := s.docs.Stat(ctx, names.Feed(set.Name).Document())
		if feed = err == nil; err != nil && !errors.Is(err, blob.ErrNotExist) {
			return false, fmt.Errorf("publish capability list: %w", err)
		}
	}
	data, err := s.encodeCapabilityList(set, there, feed)
	if err != nil {
		return false, fmt.Errorf("build capability list: %w", err)
	}
	list := names.Set(set.Name).CapabilityList()
	old, mod, err := s.docs.ReadBlob(ctx, list)
	if err == nil && bytes.Equal(old, data) {
		return false, nil
	}
	if err == nil {
		err = s.docs.CommitBlob(ctx, list, data, s.docs.After(mod))
	}
	if err != nil {
		return false, fmt.Errorf("publish capability list: %w", err)
	}
	return true, nil
}

// find returns the documents of a set that are there, except those in without.
func (s *Documents) find(ctx context.Context, set Set, without []string) (there []capable, err error) {
	for _, c := range capabilities(set) {
		_, err := s.docs.Stat(ctx, c.name)
		switch {
		case errors.Is(err, blob.ErrNotExist):
		case err != nil:
			return nil, err
		case !slices.Contains(without, c.name):
			there = append(there, c)
		}
	}
	return there, nil
}

// offer keeps for the home page what a set offers.
func (s *Documents) offer(set string, there []capable) {
	s.offering.Lock()
	defer s.offering.Unlock()
	if s.offered == nil {
		s.offered = make(map[string][]capable)
	}
	s.offered[set] = there
}

// Offers returns the address of a set's document for c, or "" if it has none.
func (s *Documents) Offers(set string, c resourcesync.Capability) string {
	s.offering.Lock()
	defer s.offering.Unlock()
	for _, d := range s.offered[set] {
		if d.capability == c {
			return s.docs.Base.URI(d.name)
		}
	}
	return ""
}

// encodeCapabilityList returns the Capability List that names the documents that
// are there, and the set's feed if that is.
func (s *Documents) encodeCapabilityList(set Set, there []capable, feed bool) ([]byte, error) {
	h := resourcesync.Header{
		Capability: resourcesync.CapabilityList,
		Links:      []resourcesync.Link{{Rel: "up", Href: s.docs.Base.URI(names.WellKnown)}}, // RS-CL-04
	}
	if set.Demand {
		h.Links = append(h.Links, resourcesync.Link{Rel: s.opts.RelDemand, Href: s.docs.Base.URI(names.Set(set.Name).Demand())})
	}
	if s.opts.RelEvents != "" {
		h.Links = append(h.Links, resourcesync.Link{Rel: s.opts.RelEvents, Href: s.docs.Base.URI(names.Set(set.Name).Topic()), Type: notify.EventsType})
	}
	h.Links = append(h.Links, resourcesync.Link{Rel: "describedby", Href: s.about(set)}) // RS-CL-05
	if feed {                                                                            // alternate is a relation of resources (RS-MD-12)
		h.Links = append(h.Links, resourcesync.Link{Rel: atompmh.RelFeed, Href: s.docs.Base.URI(names.Feed(set.Name).Document()), Type: atompmh.MediaType})
	}
	entries := make([]resourcesync.Entry, len(there))
	for i, c := range there {
		entries[i] = capability(s.docs.Base.URI(c.name), c.capability)
	}
	if len(s.opts.Hubs) > 0 { // RN-CH-07, RN-CH-08: one entry, whatever the number of hubs
		channel := capability(s.docs.Base.URI(names.Set(set.Name).Topic()), resourcesync.ChangeNotification)
		for _, h := range s.opts.Hubs {
			channel.Links = append(channel.Links, resourcesync.Link{Rel: resourcesync.RelHub, Href: h})
		}
		entries = append(entries, channel)
	}
	return document.Encode(h, entries...)
}

// capability returns an entry that names a document. It has no lastmod, which
// would have to follow the document's (RS-EM-06).
func capability(uri string, c resourcesync.Capability) resourcesync.Entry {
	return resourcesync.Entry{Loc: uri, Metadata: resourcesync.Metadata{Capability: c}}
}
