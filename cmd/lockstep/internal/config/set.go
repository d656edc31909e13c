package config

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/fetch"
	"lockstep/internal/linkrel"
	"lockstep/resourcesync"
	"lockstep/source"
)

// A Set is one set of resources, as the configuration file describes it.
type Set struct {
	Name         string     `yaml:"name"`
	Title        string     `yaml:"title"`       // for people
	Description  string     `yaml:"description"` // what it contains, for people; or the URI of information about it
	From         string     `yaml:"from"`        // where its resources come from, see Kinds
	URI          string     `yaml:"uri"`         // what the URIs of its resources begin with
	Hash         StringList `yaml:"hash"`
	Include      StringList `yaml:"include"`
	Exclude      StringList `yaml:"exclude"`
	ScanInterval *duration  `yaml:"scan_interval"`
	Rehash       *Share     `yaml:"rehash"`        // of the files is read again in a day
	FullInterval *duration  `yaml:"full_interval"` // between harvests of everything
	Complete     bool       `yaml:"complete"`
	Sidecar      string     `yaml:"sidecar"`
	Hidden       *bool      `yaml:"hidden"`      // files whose names begin with a dot are published
	Types        StringList `yaml:"types"`       // media types wanted of a feed's records
	Overlap      duration   `yaml:"overlap"`     // how late its entries may come
	AcceptFeed   bool       `yaml:"accept_feed"` // another one may take its place
	Upstream     `yaml:",inline"`
	Upstreams    []Member      `yaml:"upstreams"` // that fill it together
	ChangeList   ChangeList    `yaml:"change_list"`
	ResourceDump *ResourceDump `yaml:"resource_dump"`
	ChangeDump   *ChangeDump   `yaml:"change_dump"`
	Patches      bool          `yaml:"patches"`
	Archive      *Archive      `yaml:"archive"`
	AtomPMH      *Atom         `yaml:"atom_pmh"`
	Versions     *Versions     `yaml:"versions"`
	OAIPMH       *bool         `yaml:"oai_pmh"`     // offered to harvesters
	Readers      StringList    `yaml:"readers"`     // that alone may read it; none: everyone may
	NotifyHubs   bool          `yaml:"notify_hubs"` // also those elsewhere, of a set that has readers
	Links        []Link        `yaml:"links"`
	Mirrors      StringList    `yaml:"mirrors"`

	Origin      Address // From, understood
	HashesGiven bool    // hashes are requested, not only published by default
}

type ChangeList struct {
	Rotate  duration   `yaml:"rotate"`
	Entries countValue `yaml:"entries"`
	Keep    duration   `yaml:"keep"`
}

type ResourceDump struct {
	Every        duration   `yaml:"every"`
	Keep         countValue `yaml:"keep"`
	PackageSize  byteSize   `yaml:"package_size"`
	PackageCount countValue `yaml:"package_count"`
}

type ChangeDump struct {
	Every        duration   `yaml:"every"`
	PackageSize  byteSize   `yaml:"package_size"`
	PackageCount countValue `yaml:"package_count"`
}

// A Link is a rule that gives resources a link.
type Link struct {
	Match string     `yaml:"match"`
	Rel   string     `yaml:"rel"`
	Href  string     `yaml:"href"`
	Type  string     `yaml:"type"`
	Pri   countValue `yaml:"pri"`
}

// A duration is written as Go does, or in days or weeks: 720h, 90s, 30d.
type duration time.Duration

// UnmarshalYAML implements [yaml.Unmarshaler].
func (d *duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := ParseDuration(n.Value)
	if err != nil || v < 0 {
		return fmt.Errorf("line %d: %q is no duration; write 30d, 720h or 90s", n.Line, n.Value)
	}
	*d = duration(v)
	return nil
}

// Label says which set of the file it is: by its name, or else its number.
func (s *Set) Label(i int) string {
	if s.Name != "" {
		return s.Name
	}
	return strconv.Itoa(i + 1)
}

// check refuses what cannot be meant and understands From.
func (s *Set) check() (err error) {
	if err := s.gather(); err != nil {
		return err
	}
	if s.From == "" {
		return term.WithHint(errors.New("from is missing"), "say where its resources come from, as from: dir:/path/of/the/files")
	}
	if s.Origin, err = parseAddress(s.From); err != nil {
		return err
	}
	if err := s.Origin.allows(s); err != nil {
		return err
	}
	if s.URI != "" && !IsAbsoluteURI(s.URI) {
		return term.WithHint(fmt.Errorf("uri %q is no absolute URI", fetch.WithoutUser(s.URI)), "write it in full, as uri: https://data.example.org/articles/")
	}
	if err := CheckTitle(s.Title, s.Description); err != nil {
		return err
	}
	if err := s.AtomPMH.check(); err != nil {
		return err
	}
	if err := s.Upstream.check(); err != nil {
		return err
	}
	if s.NotifyHubs && !s.Private() {
		return term.WithHint(errors.New("notify_hubs applies to sets with readers"), "leave it out: hubs are notified of all other sets")
	}
	if s.InPlace() {
		s.Origin = s.Origin.inPlace()
	}
	_, err = s.LinkRules()
	return err
}

// IsAbsoluteURI reports whether s is a URI with a scheme and a host, and with a port that
// exists if it is one of the web.
func IsAbsoluteURI(s string) bool {
	u, err := url.Parse(s)
	web := err == nil && (u.Scheme == "http" || u.Scheme == "https")
	return err == nil && u.Scheme != "" && u.Host != "" && (!web || term.IsURL(s)) && !strings.ContainsAny(s, " <>\"{}")
}

// particular lists the keys that not every kind of origin uses.
func (s *Set) particular() []struct {
	key   string
	given bool
} {
	return []struct {
		key   string
		given bool
	}{
		{"hash", len(s.Hash) > 0},
		{"include", len(s.Include) > 0},
		{"exclude", len(s.Exclude) > 0},
		{"scan_interval", s.ScanInterval != nil},
		{"rehash", s.Rehash != nil},
		{"full_interval", s.FullInterval != nil},
		{"complete", s.Complete},
		{"sidecar", s.Sidecar != ""},
		{"hidden", s.Hidden != nil},
		{"types", len(s.Types) > 0},
		{"overlap", s.Overlap > 0},
		{"accept_feed", s.AcceptFeed},
		{"store", s.Store != ""},
		{"copy", s.Copy != nil},
		{"via", s.Via != ""},
		{"collection", s.Collection != ""},
		{"allow_hosts", len(s.AllowHosts) > 0},
		{"max_delete", s.MaxDelete > 0},
		{"poll", s.Poll != nil},
		{"poll_max", s.PollMost != nil},
		{"first_wait", s.FirstWait != nil},
	}
}

// SettleDumps fills in dumps with their defaults if there are to be some and
// the set does not describe its own; a flag that forbids them takes them away.
func (s *Set) SettleDumps(wanted, overruled bool) {
	switch {
	case wanted:
		if s.ResourceDump == nil {
			s.ResourceDump = &ResourceDump{}
		}
		if s.ChangeDump == nil {
			s.ChangeDump = &ChangeDump{}
		}
	case overruled:
		s.ResourceDump, s.ChangeDump = nil, nil
	}
}

// LinkRules returns the rules that give its resources links.
func (s *Set) LinkRules() ([]source.LinkRule, error) {
	var rules []source.LinkRule
	for i, l := range s.Links {
		switch {
		case l.Rel == "":
			return nil, fmt.Errorf("link %d: rel is missing; write rel: alternate, or another relation", i+1)
		case l.Href == "":
			return nil, fmt.Errorf("link %d: href is missing; write href: https://example.org/{path}", i+1)
		}
		if err := linkrel.Check(l.Rel); err != nil {
			return nil, fmt.Errorf("link %d: %w", i+1, err)
		}
		rules = append(rules, source.LinkRule{
			Match: l.Match, Href: l.Href,
			Link: resourcesync.Link{Rel: l.Rel, Type: l.Type, Pri: int(l.Pri)},
		})
	}
	for i, href := range s.Mirrors {
		if !strings.Contains(href, "{") {
			return nil, term.WithHint(fmt.Errorf("mirror %s does not say where in it a resource is", href),
				"write "+strings.TrimSuffix(href, "/")+"/{path}")
		}
		rules = append(rules, source.LinkRule{Href: href, Link: resourcesync.Link{Rel: relDuplicate, Pri: i + 1}}) // RS-REL-10
	}
	return rules, nil
}

// relDuplicate is the relation of a resource to its copy on a mirror.
const relDuplicate = "duplicate"

// KeepsBytes reports whether the bytes of past representations are needed: for
// the Change Dump, to make patches of, or as prior versions.
func (c *Set) KeepsBytes() bool { return c.ChangeDump != nil || c.Patches || c.Versions != nil }

// OpensBytes reports whether representations have to be opened at all.
func (c *Set) OpensBytes() bool { return c.ResourceDump != nil || c.KeepsBytes() }

// Private reports whether only its readers may read the set.
func (c *Set) Private() bool { return len(c.Readers) > 0 }

// OffersOAI reports whether the set is offered to harvesters.
func (c *Set) OffersOAI() bool { return c.OAIPMH != nil && *c.OAIPMH }
