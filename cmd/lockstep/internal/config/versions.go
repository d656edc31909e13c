package config

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"lockstep/memento"
)

// A Versions says which prior versions of its resources a set keeps.
type Versions struct {
	Keep     *KeepValue `yaml:"keep"`
	Compress bool       `yaml:"compress"` // those of all sets: they share a store
}

// keepAll is how versions are kept by default, and a short way to
// write that.
const keepAll = "keep"

// UnmarshalYAML implements [yaml.Unmarshaler].
func (c *Versions) UnmarshalYAML(n *yaml.Node) error {
	switch {
	case n.Kind == yaml.ScalarNode && n.Value == keepAll:
	case n.Kind != yaml.MappingNode:
		return fmt.Errorf("line %d: want keep, or keys such as {keep: 90d, compress: true}", n.Line)
	default:
		if err := knownKeys(n, "config.Versions", "keep", "compress"); err != nil {
			return err
		}
		type plain Versions // without this method
		if err := n.Decode((*plain)(c)); err != nil {
			return err
		}
	}
	if c.Keep == nil {
		c.Keep = &KeepValue{All: true}
	}
	return nil
}

// Policy returns which versions are kept in addition to the published one;
// none, if c is nil.
func (c *Versions) Policy() memento.Policy {
	if c == nil {
		return memento.Policy{}
	}
	return memento.Policy{All: c.Keep.All, Count: c.Keep.Count, Age: c.Keep.Age}
}
