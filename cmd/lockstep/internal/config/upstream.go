package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"lockstep/cmd/lockstep/internal/term"
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
	if u.Collection != "" && !IsAbsoluteURI(u.Collection) {
		return fmt.Errorf("collection %q is no absolute URI", u.Collection)
	}
	if u.InPlace() && u.Store != "" {
		return term.WithHint(errors.New("store: with copy: false no resource is stored"), "leave store out")
	}
	if u.InPlace() && u.Via == ViaChain {
		return term.WithHint(errors.New("via: with copy: false the resources keep their URIs, and the links that they have"), "leave via out")
	}
	return nil
}

// inPlace returns the address as that of an origin whose resources are where their URIs
// say.
func (a Address) inPlace() Address {
	kind := *a.Kind
	kind.Away = true
	a.Kind = &kind
	return a
}
