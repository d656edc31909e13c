package config

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"lockstep/cmd/lockstep/internal/term"
	"lockstep/source"
)

// An Archive says what of the past of a set's documents is kept, by kind;
// nil: nothing.
type Archive struct {
	ResourceLists *snapshotRetain `yaml:"resource_lists"`
	ResourceDumps *KeepValue      `yaml:"resource_dumps"`
	ChangeLists   *KeepValue      `yaml:"change_lists"`
	ChangeDumps   *KeepValue      `yaml:"change_dumps"`
}

// archiveEvery is the default for the shortest interval between archived
// Resource Lists of a Source that writes new lists all the time.
const archiveEvery = 24 * time.Hour

// Archive returns the archive options of the set's Source; watching: it
// continues after the first publication.
func (c *Archive) Archive(watching bool) *source.Archive {
	if c == nil {
		return nil
	}
	a := &source.Archive{ResourceDumps: c.ResourceDumps.retain(), ChangeLists: c.ChangeLists.retain(), ChangeDumps: c.ChangeDumps.retain()}
	if l := c.ResourceLists; l != nil {
		a.ResourceLists = l.Keep.retain()
		if watching {
			a.ResourceLists.Every = archiveEvery
		}
		if l.Every != nil {
			a.ResourceLists.Every = time.Duration(*l.Every)
		}
	}
	return a
}

// CheckArchive refuses archives of what the set does not publish.
func (s *Set) CheckArchive() error {
	switch a := s.Archive; {
	case a == nil:
	case a.ResourceDumps != nil && s.ResourceDump == nil:
		return term.WithHint(errors.New("archive: resource_dumps: there is no Resource Dump to archive"), "write resource_dump: {}, or leave resource_dumps out")
	case a.ChangeDumps != nil && s.ChangeDump == nil:
		return term.WithHint(errors.New("archive: change_dumps: there is no Change Dump to archive"), "write change_dump: {}, or leave change_dumps out")
	}
	return nil
}

// A snapshotRetain is how many archived Resource Lists are kept, or a mapping
// that also states the interval between them.
type snapshotRetain struct {
	Keep  *KeepValue `yaml:"keep"`
	Every *duration  `yaml:"every"`
}

// UnmarshalYAML implements [yaml.Unmarshaler].
func (r *snapshotRetain) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		r.Keep = new(KeepValue)
		return r.Keep.UnmarshalYAML(n)
	}
	if err := knownKeys(n, "config.snapshotRetain", "keep", "every"); err != nil {
		return err
	}
	type plain snapshotRetain // without this method
	if err := n.Decode((*plain)(r)); err != nil {
		return err
	}
	if r.Keep == nil {
		r.Keep = &KeepValue{All: true}
	}
	return nil
}

// knownKeys rejects keys of a mapping that are not among known, with the
// wording of the library, which does not check them where a type decodes
// itself.
func knownKeys(n *yaml.Node, typ string, known ...string) error {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		ok := false
		for _, k := range known {
			ok = ok || key.Value == k
		}
		if !ok {
			return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: field %s not found in type %s", key.Line, key.Value, typ)}}
		}
	}
	return nil
}

// A KeepValue says how much of the past is kept: all of it, the newest Count
// items, or what is not older than Age. Exactly one is set.
type KeepValue struct {
	All   bool
	Count int
	Age   time.Duration
}

// UnmarshalYAML implements [yaml.Unmarshaler].
func (v *KeepValue) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: want all, a number, or a time such as 90d", n.Line)
	}
	got, err := ParseKeep(n.Value)
	if err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	*v = got
	return nil
}

// retain converts v to the type that the source package uses; v may be nil.
func (v *KeepValue) retain() *source.Retain {
	if v == nil {
		return nil
	}
	return &source.Retain{All: v.All, Count: v.Count, Age: v.Age}
}

// ParseKeep reads how much of the past is kept: all, a number above 0, or a
// time, as Go writes one or in days or weeks: 720h, 90d, 12w.
func ParseKeep(s string) (KeepValue, error) {
	s = strings.TrimSpace(s)
	if s == "all" {
		return KeepValue{All: true}, nil
	}
	if n, err := strconv.Atoi(s); err == nil && n > 0 {
		return KeepValue{Count: n}, nil
	}
	age, err := ParseDuration(s)
	if err != nil || age <= 0 {
		return KeepValue{}, fmt.Errorf("%q is not a valid value; write all, a number above 0, or a time such as 90d, 12w or 720h", s)
	}
	return KeepValue{Age: age}, nil
}

// ParseDuration reads a time as Go writes one, or in days or weeks: 90s, 30d, 12w.
func ParseDuration(s string) (time.Duration, error) {
	m := longTime.FindStringSubmatch(s)
	if m == nil {
		return time.ParseDuration(s)
	}
	n, err := strconv.Atoi(m[1])
	return time.Duration(n) * longUnits[m[2]], err
}

// longTime is a time in days or weeks, less than 200 years.
var longTime = regexp.MustCompile(`^([0-9]{1,4})(d|w)$`)

var longUnits = map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour}
