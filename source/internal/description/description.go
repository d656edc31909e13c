// Package description publishes the documents that lead to all others: the Source
// Description, the Capability List of each set, robots.txt and the page beside
// the documents.
package description

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"lockstep/resourcesync"
	"lockstep/source/internal/document"
	"lockstep/source/internal/names"
	"lockstep/source/internal/page"
)

// Options are what these documents depend on.
type Options struct {
	Docs        *document.Store
	Description string        // URI of information about the Source
	Hubs        []string      // URLs of hubs
	RelDemand   string        // relation of the address of packages on demand
	RelEvents   string        // relation of event streams; empty: there are none
	Grace       time.Duration // how long replaced parts are kept

	// Hint returns the page that is beside the documents, about the sets.
	Hint func(sets []string) ([]byte, error)
}

// A Set is a set of resources.
type Set struct {
	Name        string
	Description string // URI of information about it; default that about the Source
	Demand      bool   // clients can ask for packages
	Feed        bool   // it has an Atom-PMH feed
	Private     bool   // documents about the Source as a whole do not name it

	// Archive reports whether documents that have the capability are archived.
	Archive func(resourcesync.Capability) bool
}

// Documents are the documents that lead to all others.
type Documents struct {
	opts Options
	docs *document.Store
	sets map[string]Set

	naming sync.Mutex // one writer of Capability Lists at a time; held across IO, for that is its purpose

	offering sync.Mutex           // guards offered and published
	offered  map[string][]capable // by set: what its Capability List names, as last published

	// published are the sets that the documents about the Source were last published for,
	// those that they do not name included; nil: they may be of an earlier process.
	published []Set

	small  map[string][]byte // documents found when all were looked at that depend on the Options only
	tidied bool              // nothing is left of older Source Descriptions
}

// New returns the documents of the sets.
func New(o Options, sets []Set) *Documents {
	s := &Documents{opts: o, docs: o.Docs, sets: make(map[string]Set)}
	for _, set := range sets {
		s.sets[set.Name] = set
	}
	return s
}

// A Report says what a publication did.
type Report struct {
	Written bool     // false: all documents were as they should be
	Kept    []string // documents left alone, because another program wrote what is there
	Lacking []string // lines that a robots.txt left alone should have
}

// Look has the next Publish look at all documents. It must not be called at the
// same time as that.
func (s *Documents) Look() { s.small, s.tidied = make(map[string][]byte), false }

// Publish writes the documents about the Source as a whole: the Source
// Description, which names the sets, or its parts and then their index
// (RS-IDX-10); robots.txt; and the page that people and crawlers find beside
// the documents. None of them names a private set. What depends on the Options only is written when it is not
// there already. A robots.txt or page that is not ours stays as it is. One
// runs at a time.
func (s *Documents) Publish(ctx context.Context, sets []string) (report Report, err error) {
	var every, all []Set
	for _, name := range sets {
		set := s.sets[name]
		every = append(every, set)
		if !set.Private {
			all = append(all, set)
		}
	}
	parts, description, err := s.encodeDescription(all)
	if err != nil {
		return report, fmt.Errorf("build source description: %w", err)
	}
	hint, err := s.opts.Hint(namesOf(all))
	if err != nil {
		return report, fmt.Errorf("build %s: %w", names.Hint, err)
	}
	for _, d := range append(parts, smallDocument{names.WellKnown, description, nil}, smallDocument{names.Robots, s.robots(all), ourRobots},
		smallDocument{names.Hint, hint, page.Ours}) {
		written, theirs, err := s.publishSmall(ctx, d)
		if err != nil {
			return report, fmt.Errorf("publish %s: %w", d.name, err)
		}
		report.Written = report.Written || written
		if theirs == nil {
			continue
		}
		report.Kept = append(report.Kept, d.name)
		if d.name == names.Robots {
			report.Lacking = s.lacking(theirs, all)
		}
	}
	if err := s.tidyDescriptions(ctx, parts); err != nil {
		return report, fmt.Errorf("remove replaced parts of the source description: %w", err)
	}
	s.offering.Lock()
	defer s.offering.Unlock()
	s.published = every
	return report, nil
}

func namesOf(sets []Set) (all []string) {
	for i := range sets {
		all = append(all, sets[i].Name)
	}
	return all
}

// Current reports whether the documents about the Source as a whole are those of its
// present sets: until then they may name sets that have become private.
func (s *Documents) Current() bool {
	s.offering.Lock()
	defer s.offering.Unlock()
	return s.published != nil
}

// For returns the Source Description as readers of some private sets see it: one document.
func (s *Documents) For(readable []string) ([]byte, error) {
	s.offering.Lock()
	published := s.published
	s.offering.Unlock()
	var seen []Set
	for _, set := range published {
		if !set.Private || slices.Contains(readable, set.Name) {
			seen = append(seen, set)
		}
	}
	data, rest, err := s.encodeSets(s.header(), seen)
	if err == nil && len(rest) > 0 {
		err = errors.New("the sets do not fit one document")
	}
	return data, err
}

// header returns that of the Source Description.
func (s *Documents) header() resourcesync.Header {
	return resourcesync.Header{
		Capability: resourcesync.Description,
		Links:      []resourcesync.Link{{Rel: "describedby", Href: s.opts.Description}}, // RS-SD-03
	}
}

// A smallDocument depends on the Options only.
type smallDocument struct {
	name string
	data []byte
	ours func([]byte) bool // whether what is there is of our making; nil: it is
}

// publishSmall writes d if it is not there already. What is there and not ours
// is returned.
func (s *Documents) publishSmall(ctx context.Context, d smallDocument) (written bool, theirs []byte, err error) {
	if bytes.Equal(s.small[d.name], d.data) {
		return false, nil, nil // we looked not long ago
	}
	old, mod, err := s.docs.ReadBlob(ctx, d.name)
	switch {
	case err != nil:
		return false, nil, err
	case old != nil && d.ours != nil && !d.ours(old):
		return false, old, nil
	}
	if !bytes.Equal(old, d.data) || old == nil {
		written = true
		err = s.docs.CommitBlob(ctx, d.name, d.data, s.docs.After(mod))
	}
	if err == nil {
		s.small[d.name] = d.data
	}
	return written, nil, err
}

// encodeDescription returns the Source Description that names the sets; if
// they do not fit one document, its parts, and the index over them. Parts are
// called after their content: a name never changes its meaning (RS-IDX-06).
func (s *Documents) encodeDescription(sets []Set) (parts []smallDocument, description []byte, err error) {
	h := s.header()
	description, rest, err := s.encodeSets(h, sets)
	if err != nil || len(rest) == 0 {
		return nil, description, err
	}
	ph := h
	ph.Links = append(ph.Links[:len(h.Links):len(h.Links)], resourcesync.Link{Rel: "index", Href: s.docs.Base.URI(names.WellKnown)})
	var entries []resourcesync.Entry
	for len(sets) > 0 {
		var data []byte
		if data, sets, err = s.encodeSets(ph, sets); err != nil {
			return nil, nil, err
		}
		sum := sha256.Sum256(data)
		part := smallDocument{name: names.DescriptionPart(sum[:8]), data: data}
		parts = append(parts, part)
		entries = append(entries, resourcesync.Entry{Loc: s.docs.Base.URI(part.name)})
	}
	h.Index = true
	description, err = document.Encode(h, entries...)
	return parts, description, err
}

// about returns the URI of information about a set: its own or, since our page
// describes every set, that about the Source.
func (s *Documents) about(set Set) string {
	if set.Description != "" {
		return set.Description
	}
	return s.opts.Description
}

// encodeSets returns a document with as many of the sets as fit it, and those
// left over (RS-SD-04).
func (s *Documents) encodeSets(h resourcesync.Header, sets []Set) (_ []byte, rest []Set, err error) {
	var buf bytes.Buffer
	w, err := resourcesync.NewWriter(&buf, h)
	if err != nil {
		return nil, nil, err
	}
	for len(sets) > 0 {
		e := capability(s.docs.CapabilityList(sets[0].Name), resourcesync.CapabilityList)
		e.Links = []resourcesync.Link{{Rel: "describedby", Href: s.about(sets[0])}} // RS-SD-07
		if w.Entries() >= s.docs.MaxEntries || w.Bytes() >= s.docs.MaxBytes {
			break
		}
		if err := w.Write(&e); errors.Is(err, resourcesync.ErrTooLarge) && w.Entries() > 0 {
			break
		} else if err != nil {
			return nil, nil, err
		}
		sets = sets[1:]
	}
	err = w.Close()
	return buf.Bytes(), sets, err
}

// tidyDescriptions removes parts that the index does not name, once it has not
// named them for the grace period.
func (s *Documents) tidyDescriptions(ctx context.Context, parts []smallDocument) error {
	if s.tidied {
		return nil
	}
	info, err := s.docs.Stat(ctx, names.WellKnown)
	if err != nil {
		return err
	}
	if s.docs.Now().Sub(info.ModTime) < s.opts.Grace {
		return nil
	}
	named := make(map[string]bool)
	for _, p := range parts {
		named[p.name] = true
	}
	var old []string
	for info, err := range s.docs.List(ctx, names.DocumentsDir+names.DescriptionPrefix) {
		if err != nil {
			return err
		}
		if names.DescriptionParts.MatchString(strings.TrimPrefix(info.Name, names.DocumentsDir)) && !named[info.Name] {
			old = append(old, info.Name)
		}
	}
	s.tidied = true
	if len(old) == 0 {
		return nil
	}
	return s.docs.Remove(ctx, old...)
}
