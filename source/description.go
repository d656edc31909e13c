package source

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"lockstep/resourcesync"
	"lockstep/source/internal/document"
	"lockstep/source/internal/names"
)

// publishSource writes the documents about the Source as a whole: the Source
// Description, which names the sets, or its parts and then their index
// (RS-IDX-10); robots.txt; and the page that people and crawlers find beside
// the documents. What depends on the Options only is written when it is not
// there already. A robots.txt or page that is not ours stays as it is.
func (s *Source) publishSource(ctx context.Context, sets []Set, report *Report) error {
	parts, description, err := s.encodeDescription(sets)
	if err != nil {
		return fmt.Errorf("build source description: %w", err)
	}
	hint, err := s.hint(sets)
	if err != nil {
		return fmt.Errorf("build %s: %w", names.Hint, err)
	}
	for _, d := range append(parts, smallDocument{names.WellKnown, description, nil}, smallDocument{names.Robots, s.robots(sets), ourRobots},
		smallDocument{names.Hint, hint, ourHint}) {
		written, theirs, err := s.publishSmall(ctx, d)
		if err != nil {
			return fmt.Errorf("publish %s: %w", d.name, err)
		}
		report.Written = report.Written || written
		if theirs == nil {
			continue
		}
		report.Kept = append(report.Kept, d.name)
		if d.name == names.Robots {
			report.Lacking = s.lacking(theirs, sets)
		}
	}
	if err := s.tidyDescriptions(ctx, parts); err != nil {
		return fmt.Errorf("remove replaced parts of the source description: %w", err)
	}
	return nil
}

// A smallDocument depends on the Options only.
type smallDocument struct {
	name string
	data []byte
	ours func([]byte) bool // whether what is there is of our making; nil: it is
}

// publishSmall writes d if it is not there already. What is there and not ours
// is returned.
func (s *Source) publishSmall(ctx context.Context, d smallDocument) (written bool, theirs []byte, err error) {
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
func (s *Source) encodeDescription(sets []Set) (parts []smallDocument, description []byte, err error) {
	h := resourcesync.Header{
		Capability: resourcesync.Description,
		Links:      []resourcesync.Link{{Rel: "describedby", Href: s.opts.Description}}, // RS-SD-03
	}
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
// tells of every set, that about the Source.
func (s *Source) about(set Set) string {
	if set.Description != "" {
		return set.Description
	}
	return s.opts.Description
}

// encodeSets returns a document with as many of the sets as fit it, and those
// left over (RS-SD-04).
func (s *Source) encodeSets(h resourcesync.Header, sets []Set) (_ []byte, rest []Set, err error) {
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
func (s *Source) tidyDescriptions(ctx context.Context, parts []smallDocument) error {
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
