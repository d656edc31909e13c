package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"lockstep/cmd/lockstep/internal/term"
	"lockstep/source"
)

// AtomFlags are the flags of serve and publish about Atom-PMH feeds.
type AtomFlags struct {
	Atom bool // every set that does not say otherwise
}

func (o *AtomFlags) Declare(flags *pflag.FlagSet) {
	flags.BoolVar(&o.Atom, "atom-pmh", false, "also publish the changes as an Atom feed, for feed readers and Atom-PMH harvesters")
}

// An Atom says what a set's Atom-PMH feed is like: true, false, or a mapping.
type Atom struct {
	Entries  countValue `yaml:"entries"`
	Complete bool       `yaml:"complete"`
	ID       string     `yaml:"id"`
	Title    string     `yaml:"title"`
	Author   string     `yaml:"author"`

	none bool // there is to be no feed, whatever the flag says
}

// UnmarshalYAML implements [yaml.Unmarshaler].
func (c *Atom) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		var wanted bool
		if err := n.Decode(&wanted); err != nil {
			return fmt.Errorf("line %d: want true, false, or keys, such as {entries: 1000}", n.Line)
		}
		c.none = !wanted
		return nil
	}
	if err := knownKeys(n, "config.Atom", "entries", "complete", "id", "title", "author"); err != nil {
		return err
	}
	type plain Atom // without this method
	return n.Decode((*plain)(c))
}

// check refuses what cannot be meant.
func (c *Atom) check() error {
	switch {
	case c == nil:
		return nil
	case c.Complete && c.Entries > 0:
		return term.WithHint(errors.New("atom_pmh: complete and entries exclude each other"), "a complete feed is one document with all there is; leave one of them out")
	case c.ID != "" && (!strings.Contains(c.ID, ":") || strings.ContainsAny(c.ID, " <>\"")):
		return term.WithHint(fmt.Errorf("atom_pmh: id %q is no absolute IRI", c.ID), "write one, as id: urn:uuid:…, or leave it out: it is then made of the feed's address")
	}
	return nil
}

// Atom returns the feed options of the set's Source.
func (c *Atom) Atom() *source.Atom {
	if c == nil || c.none {
		return nil
	}
	return &source.Atom{Entries: int(c.Entries), Complete: c.Complete, ID: c.ID, Title: c.Title, Author: c.Author}
}
