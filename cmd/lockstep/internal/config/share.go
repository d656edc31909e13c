package config

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"lockstep/cmd/lockstep/internal/term"
)

// A Share is a part of a whole, from 0 to 1, which people write in percent.
type Share float64

// ParseShare reads a share: 1%, 0.5, 0.
func ParseShare(s string) (Share, error) {
	f, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(s), "%")), 64)
	if err != nil || !(f >= 0 && f <= 100) {
		return 0, term.WithHint(fmt.Errorf("%q: want percent of the files in a day, from 0 to 100", s), "as 1%, or 0 for none")
	}
	return Share(f / 100), nil
}

// UnmarshalYAML implements [yaml.Unmarshaler].
func (p *Share) UnmarshalYAML(n *yaml.Node) error {
	v, err := ParseShare(n.Value)
	if err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	*p = v
	return nil
}
