package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/fetch"
)

// An Upstream says how a set follows and republishes another Source.
type Upstream struct {
	Store      string     `yaml:"store"`       // directory or bucket of the mirror
	Copy       *bool      `yaml:"copy"`        // the resources are served from here
	Via        string     `yaml:"via"`         // ViaOrigin or ViaChain
	Collection string     `yaml:"collection"`  // URI that each resource gets a link to
	AllowHosts StringList `yaml:"allow_hosts"` // whose resources the upstream may name besides its own
	MaxDelete  percent    `yaml:"max_delete"`  // of the mirror, that one run may delete
	Poll       *duration  `yaml:"poll"`        // between looks at an upstream that sends no notifications
	PollMost   *duration  `yaml:"poll_max"`    // to which that grows while nothing changes
	FirstWait  *duration  `yaml:"first_wait"`  // that its first run may delay the first publication of the set
}

// A Member is one of several upstreams that fill a set. What it does not say is as the
// set says.
type Member struct {
	Name     string     `yaml:"name"` // of the directory of its resources below the URI of the set
	From     string     `yaml:"from"`
	Priority countValue `yaml:"priority"` // 1 is the highest; default: the lowest
	Include  StringList `yaml:"include"`
	Exclude  StringList `yaml:"exclude"`
	Types    StringList `yaml:"types"`
	Upstream `yaml:",inline"`

	Origin Address // From, understood
}

// Key returns a name of the upstream that remains the same from run to run.
func (m *Member) Key() string {
	if m.Name != "" {
		return m.Name
	}
	sum := sha256.Sum256([]byte(m.Origin.WithoutUser()))
	return hex.EncodeToString(sum[:6])
}

// validName is the form of names: they are parts of paths.
var validName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*$`)

// gather checks the upstreams of a set, and sorts them by their priority.
func (s *Set) gather() error {
	if len(s.Upstreams) == 0 {
		return nil
	}
	if s.From != "" {
		return term.WithHint(errors.New("the set has both from and upstreams"), "write what is at from as one of the upstreams")
	}
	if s.Store != "" {
		return term.WithHint(errors.New("store: each of several upstreams has a mirror of its own"), "write store below the upstream that it is for")
	}
	var places []string
	keys := map[string]bool{}
	for i := range s.Upstreams {
		m := &s.Upstreams[i]
		var err error
		if m.Origin, err = parseAddress(m.From); err == nil && m.Origin.Kind.Scheme != "resourcesync" {
			err = fmt.Errorf("from %s: want resourcesync:URL", m.Origin)
		}
		if err == nil && m.Name != "" && !validName.MatchString(m.Name) {
			err = fmt.Errorf("name %q: want letters and digits, and within it also _, - and dots", m.Name)
		}
		m.inherit(s)
		if err == nil {
			err = m.Upstream.check()
		}
		if err == nil && m.InPlace() != s.InPlace() {
			err = errors.New("copy is the same for all upstreams of a set")
		}
		if err == nil && keys[m.Key()] {
			err = fmt.Errorf("another upstream has the same name or address: %s", m.Key())
		}
		if err != nil {
			return term.WithHint(fmt.Errorf("upstream %d: %w", i+1, err), term.HintOf(err))
		}
		keys[m.Key()] = true
		places = append(places, m.Origin.WithoutUser()) // messages name all of them
	}
	sort.SliceStable(s.Upstreams, func(i, j int) bool { return uint(s.Upstreams[i].Priority)-1 < uint(s.Upstreams[j].Priority)-1 }) // 0 is the last
	s.From = "resourcesync:" + strings.Join(places, ", ")
	return nil
}

// inherit takes from the set what the upstream does not say.
func (m *Member) inherit(s *Set) {
	if m.Copy == nil {
		m.Copy = s.Copy
	}
	m.Via, m.Collection = cmp.Or(m.Via, s.Via), cmp.Or(m.Collection, s.Collection)
	m.MaxDelete = cmp.Or(m.MaxDelete, s.MaxDelete)
	if m.Poll == nil {
		m.Poll = s.Poll
	}
	if m.PollMost == nil {
		m.PollMost = s.PollMost
	}
	if m.FirstWait == nil {
		m.FirstWait = s.FirstWait
	}
	for _, l := range []struct{ own, common *StringList }{{&m.AllowHosts, &s.AllowHosts}, {&m.Types, &s.Types}} {
		if len(*l.own) == 0 {
			*l.own = *l.common
		}
	}
}

// A percent is a share in percent, from 1 to 100; 0 was not given.
type percent int

// UnmarshalYAML implements [yaml.Unmarshaler].
func (p *percent) UnmarshalYAML(n *yaml.Node) error {
	v, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(n.Value, "%")))
	if err != nil || v < 1 || v > 100 {
		return fmt.Errorf("line %d: %q is no share of 1 to 100 percent", n.Line, n.Value)
	}
	*p = percent(v)
	return nil
}

// The values of via.
const (
	ViaOrigin = "origin" // one via link, to the origin of the resource
	ViaChain  = "chain"  // one for each Source that the resource has passed
)

// InPlace reports whether the resources keep their URIs.
func (u *Upstream) InPlace() bool { return u.Copy != nil && !*u.Copy }

func (u *Upstream) check() error {
	switch u.Via {
	case "", ViaOrigin, ViaChain:
	default:
		return term.WithHint(fmt.Errorf("via %q: want %s or %s", u.Via, ViaOrigin, ViaChain), "via: chain writes a link for each Source that a resource has passed")
	}
	if u.PollMost != nil && u.Poll != nil && *u.PollMost < *u.Poll {
		return fmt.Errorf("poll_max %s: want at least poll, %s", time.Duration(*u.PollMost), time.Duration(*u.Poll))
	}
	if u.Collection != "" && !IsAbsoluteURI(u.Collection) {
		return fmt.Errorf("collection %q is no absolute URI", fetch.WithoutUser(u.Collection))
	}
	if u.InPlace() && u.Store != "" {
		return term.WithHint(errors.New("store: with copy: false no resource is stored"), "leave store out")
	}
	if u.InPlace() && u.Via == ViaChain {
		return term.WithHint(errors.New("via: with copy: false the resources keep their URIs, and the links that they have"), "leave via out")
	}
	return nil
}

// Stores returns where the mirrors of the upstreams of the set are; "" is in the state of the Source.
func (s *Set) Stores() (stores []string) {
	for i := range s.Upstreams {
		stores = append(stores, s.Upstreams[i].Store)
	}
	if len(stores) == 0 {
		stores = []string{s.Store}
	}
	return stores
}

// Same reports whether two settled configurations of a set mean the same.
func (s *Set) Same(other *Set) bool {
	return reflect.DeepEqual(s.comparable(), other.comparable())
}

// comparable returns the set without what is only another form of something in it.
func (s *Set) comparable() Set {
	c := *s
	c.Origin = Address{}
	c.Upstreams = slices.Clone(c.Upstreams)
	for i := range c.Upstreams {
		m := &c.Upstreams[i]
		m.Origin = Address{}
		for _, l := range []struct{ own, common *StringList }{{&m.Include, &c.Include}, {&m.Exclude, &c.Exclude}} {
			if len(*l.own) == 0 {
				*l.own = *l.common
			}
		}
	}
	return c
}

// SameReaders reports whether two configurations of a set have the same readers.
func (s *Set) SameReaders(other *Set) bool {
	return slices.Equal(s.Readers, other.Readers) && s.NotifyHubs == other.NotifyHubs
}

// SameBut reports whether two settled configurations of a set mean the same, apart from the
// upstreams that it has; each has some.
func (s *Set) SameBut(other *Set) bool {
	a, b := s.comparable(), other.comparable()
	some := len(a.Upstreams) > 0 && len(b.Upstreams) > 0
	a.From, b.From, a.Upstreams, b.Upstreams = "", "", nil, nil
	return some && reflect.DeepEqual(a, b)
}

// Same reports whether two settled configurations of an upstream of one set mean the same,
// apart from its priority.
func (m *Member) Same(other *Member) bool {
	a, b := *m, *other
	a.Origin, b.Origin, a.Priority, b.Priority = Address{}, Address{}, 0, 0
	return reflect.DeepEqual(a, b)
}

// Follows reports whether a Source fills the set, alone or with others. s may be nil.
func (s *Set) Follows(address string) bool {
	if s == nil {
		return false
	}
	for i := range s.Upstreams {
		if s.Upstreams[i].Origin.WithoutUser() == address {
			return true
		}
	}
	return len(s.Upstreams) == 0 && s.Origin.WithoutUser() == address
}

// inPlace returns the address as that of an origin whose resources are where their URIs
// say.
func (a Address) inPlace() Address {
	kind := *a.Kind
	kind.Away = true
	a.Kind = &kind
	return a
}
