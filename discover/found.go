package discover

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// maxSteps caps the recorded steps: a Source with many sets names them all.
const maxSteps = 1000

// Found is the result of Find.
type Found struct {
	Address           string // as given, without user and password
	Origin            string // scheme, host and port of the first successful request; empty for a file
	SourceDescription string // URI, if known
	Validators               // of the Source Description, if it was read
	All               bool   // Sets are all that the Source Description lists
	Again             bool   `json:",omitempty"` // the next Refresh reads everything again: a document that may lead to more sets was unreadable, or Source Descriptions are nested
	Robots            Robots `json:",omitzero"`  // if it named the sets
	Page              Page   `json:",omitzero"`  // likewise
	Sets              []Set
	Foreign           *Foreign `json:",omitempty"` // instead of Sets: what has to be harvested by another protocol
	Way               []Step
	Absent            bool `json:"-"` // Address has a path at which there is nothing, and the sets are those of its site
}

// Robots is a robots.txt that named the sets: its Sitemap lines list them as a Source
// Description does.
type Robots struct {
	URI        string
	Validators        // of robots.txt
	Sitemaps   string // hash of the addresses that it named, in order
}

// Page is a page that linked to the sets, or a resource whose headers did: its links list
// them as a Source Description does.
type Page struct {
	URI        string
	Validators        // of the page
	Targets    string // hash of the addresses that it linked to, in order
	Err        error  `json:"-"` // why it could not be read again: it may link to more sets now
}

// A Step is one attempt of Find, described for people.
type Step struct {
	URI  string
	What string
}

// String returns the step in one line.
func (s Step) String() string { return s.URI + ": " + s.What }

// step records an attempt.
func (f *Found) step(uri, format string, args ...any) {
	if len(f.Way) >= maxSteps {
		return
	}
	f.Way = append(f.Way, Step{fetch.Printable(uri), fetch.Printable(fmt.Sprintf(format, args...))})
}

// failed records an unsuccessful step.
func (f *Found) failed(uri string, err error) {
	var status *fetch.StatusError
	if errors.As(err, &status) {
		f.step(uri, "answered with %v", status)
		return
	}
	f.step(uri, "of no use: %v", err)
}

// unread records a document that was announced and could not be read: nothing
// else replaces it, and the sets it would lead to are unknown.
func (f *Found) unread(uri string, err error) {
	f.failed(uri, err)
	f.add(Set{CapabilityList: uri, Err: err})
	f.Again = true
}

// announced reports whether a document was found or announced: then nothing is
// guessed any more.
func (f *Found) announced() bool { return len(f.Sets) > 0 || f.Foreign != nil }

// knows reports whether the set with that Capability List is found already.
func (f *Found) knows(capabilityList string) bool {
	for i := range f.Sets {
		if f.Sets[i].CapabilityList == capabilityList {
			return true
		}
	}
	return false
}

// usable reports whether a set could be read.
func (f *Found) usable() bool {
	for i := range f.Sets {
		if f.Sets[i].Err == nil {
			return true
		}
	}
	return false
}

// take makes o the result.
func (f *Found) take(o *Foreign) {
	f.Foreign = o
	if o.Title != "" {
		f.step(o.URI, "%s: %s", o.What(), o.Title)
	} else {
		f.step(o.URI, "%s", o.What())
	}
}

// named accepts the kind that the prefix of an address states, without a
// request.
func (f *Found) named(kind, uri string) error {
	u, err := url.Parse(uri)
	if err != nil {
		return fmt.Errorf("%s: not a valid URI", fetch.Printable(uri))
	}
	f.Origin = u.Scheme + "://" + u.Host
	o := &Foreign{Kind: kind, URI: withoutFragment(uri)}
	if kind == OAIPMH {
		o.URI = repositoryOf(uri)
	}
	f.Foreign = o
	f.step(o.URI, "named as %s", o.What())
	return nil
}

// add adds a set. If it is there already, the readable version wins.
func (f *Found) add(s Set) {
	for i := range f.Sets {
		if was := &f.Sets[i]; was.CapabilityList == s.CapabilityList && s.CapabilityList != "" {
			if was.Err != nil {
				*was = s
			}
			return
		}
	}
	f.Sets = append(f.Sets, s)
}

// alone makes a set of a list without a document above it.
func (f *Found) alone(d *Document) {
	c := d.Header.Capability
	if c == "" { // RS-RL-12
		c = resourcesync.ResourceList
	}
	f.step(d.URI, "%s, used by itself", kind(&d.Header))
	f.Sets = append(f.Sets, Set{Capabilities: []Capability{{c, d.URI}}, Sitemap: d.Header.Capability == ""})
}

// prefer makes d, the list that the user named, the set's, unless it is a part
// of a list that the Capability List names.
func (f *Found) prefer(s *Set, d *Document) {
	if !listed(d.Header.Capability) {
		return
	}
	c := d.Header.Capability
	if c == "" {
		c = resourcesync.ResourceList
	}
	named := s.URI(c)
	if named == "" {
		s.Capabilities = append(s.Capabilities, Capability{c, d.URI})
		return
	}
	index := d.Header.Link(resourcesync.RelIndex)
	if named == d.URI || named == d.Final || index != "" || sameDocument(named, d.URI) {
		return
	}
	f.step(d.URI, "used in place of %s, which the Capability List names", named)
	for i := range s.Capabilities {
		if s.Capabilities[i].Capability == c {
			s.Capabilities[i].URI = d.URI
		}
	}
}

// sameDocument reports whether two URIs differ only in scheme and host: one
// server with two names.
func sameDocument(a, b string) bool {
	u, err := url.Parse(a)
	v, verr := url.Parse(b)
	return err == nil && verr == nil && u.Path == v.Path && u.RawQuery == v.RawQuery
}

// maxTold caps the steps listed in the error about an address without
// documents.
const maxTold = 12

// nothing returns the error for an address without documents.
func (f *Found) nothing() error {
	tried := make([]string, 0, maxTold+1)
	for i, s := range f.Way {
		if i == maxTold {
			tried = append(tried, "…")
			break
		}
		tried = append(tried, s.String())
	}
	return fmt.Errorf("%s: %w (%s)", fetch.Printable(f.Address), ErrNoSource, strings.Join(tried, "; "))
}
