package discover

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// maxHubs caps the hubs of one channel: each may cost a request.
const maxHubs = 10

// A Capability is a document that a set offers. The capability Change
// Notification is not a document: its URI names a topic, and a request for it
// may fail (RN-CH-11).
type Capability struct {
	Capability resourcesync.Capability
	URI        string
}

// A Link is a useful link of a Capability List.
type Link struct {
	Rel string
	URI string
}

// A Set is the content of one Capability List.
type Set struct {
	Name           string // last element of the path before capabilitylist.xml, or "main"; unique within the Source
	CapabilityList string // URI; empty when only a list is known
	Validators            // of the Capability List
	Capabilities   []Capability
	Sitemap        bool     `json:",omitempty"` // only a plain Sitemap is known
	Links          []Link   `json:",omitempty"` // at the root of the Capability List
	Hubs           []string `json:",omitempty"` // of the Change Notification channel, in order (RN-CH-07)
	Warnings       []string `json:"-"`          // deviations from the standard in its channel, when it was read
	Err            error    `json:"-"`          // why the Capability List could not be read
}

// Link returns the target of the Capability List's first link with relation
// rel, or "" (RS-LN-04: any relation is allowed).
func (s *Set) Link(rel string) string {
	for _, l := range s.Links {
		if l.Rel == rel {
			return l.URI
		}
	}
	return ""
}

// URI returns the address of the document with capability c, or "".
func (s *Set) URI(c resourcesync.Capability) string {
	for _, o := range s.Capabilities {
		if o.Capability == c {
			return o.URI
		}
	}
	return ""
}

func (s *Set) offers() string {
	if len(s.Capabilities) == 0 {
		return "offers nothing"
	}
	names := make([]string, len(s.Capabilities))
	for i, c := range s.Capabilities {
		names[i] = kind(&resourcesync.Header{Capability: c.Capability})
	}
	return strings.Join(names, ", ")
}

// readSet reads a Capability List.
func readSet(d *Document) (Set, error) {
	s := Set{CapabilityList: d.URI, Validators: d.Validators}
	n := 0
	for e, err := range d.Entries() {
		if err != nil {
			return Set{}, err
		}
		n++
		switch {
		case e.Loc == d.URI || e.Loc == d.Final:
			return Set{}, &circleError{d.URI}
		case n > maxCapabilities:
			return Set{}, fmt.Errorf("read %s: more than %d capabilities", fetch.Printable(d.URI), maxCapabilities)
		}
		c, ok := s.channel(e.Capability)
		if !ok || c == "" || s.URI(c) != "" { // RS-CL-02: the first counts
			continue
		}
		s.Capabilities = append(s.Capabilities, Capability{c, e.Loc})
		if c != resourcesync.ChangeNotification {
			continue
		}
		for _, l := range e.Links { // before or after rs:md, several, or none (RN-CH-08, RN-CH-09)
			if l.Rel == resourcesync.RelHub && l.Href != "" && len(s.Hubs) < maxHubs && !slices.Contains(s.Hubs, l.Href) {
				s.Hubs = append(s.Hubs, l.Href)
			}
		}
	}
	if err := d.Unlocated(); err != nil {
		return Set{}, err
	}
	for _, l := range d.Header.Links { // all of them, now that the document is read to its end
		if l.Rel != "" && l.Href != "" && len(s.Links) < maxCapabilities {
			s.Links = append(s.Links, Link{l.Rel, l.Href})
		}
	}
	return s, nil
}

// channel returns the current spelling of an entry's capability if the entry is
// a Change Notification channel; any other capability unchanged. It ignores
// entries about other kinds of notification.
func (s *Set) channel(c resourcesync.Capability) (resourcesync.Capability, bool) {
	switch c {
	case resourcesync.ChangeNotification:
	case "changenotification", "change-notifications", "notification":
		s.Warnings = append(s.Warnings, fmt.Sprintf("RN-CH-10: capability %s, which is %s now", c, resourcesync.ChangeNotification))
		return resourcesync.ChangeNotification, true
	default:
		if strings.HasSuffix(strings.ToLower(string(c)), "notification") {
			if len(s.Warnings) < maxCapabilities {
				s.Warnings = append(s.Warnings, fmt.Sprintf("RN-FW-03: capability %s is of no use here, and ignored", fetch.Printable(string(c))))
			}
			return c, false
		}
	}
	return c, true
}

// nameSets gives every set a unique name that does not depend on the order of the
// sets: sets with equal names are distinguished by their URIs. A set that has a
// name keeps it.
func nameSets(sets []Set) {
	same, taken := map[string]int{}, map[string]bool{}
	for i := range sets {
		if sets[i].Name != "" {
			taken[sets[i].Name] = true
			continue
		}
		same[setName(sets[i].uri())]++
	}
	for i := range sets {
		s := &sets[i]
		if s.Name != "" {
			continue
		}
		name := setName(s.uri())
		if same[name] > 1 || taken[name] {
			sum := sha256.Sum256([]byte(s.uri()))
			for n := 3; ; n++ { // longer, if two hashes begin alike
				if unique := fmt.Sprintf("%s-%x", name, sum[:n]); !taken[unique] && same[unique] == 0 {
					name = unique
					break
				}
			}
		}
		taken[name] = true
		s.Name = name
	}
}

// uri identifies the set: by its Capability List, else by the only list known.
func (s *Set) uri() string {
	if s.CapabilityList == "" && len(s.Capabilities) > 0 {
		return s.Capabilities[0].URI
	}
	return s.CapabilityList
}

func setName(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return "main"
	}
	dir, file := path.Split(u.Path)
	name := strings.TrimSuffix(strings.TrimSuffix(file, ".gz"), ".xml")
	switch strings.ToLower(name) {
	case "capabilitylist", "resourcelist", "changelist", "resourcedump", "changedump", "sitemap", "":
		name = path.Base(dir)
	}
	if name == "." || name == "/" || name == "resourcesync" || name == "" {
		return "main"
	}
	return fetch.Printable(name)
}
