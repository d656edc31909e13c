package config

import (
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/statedir"
)

// DefaultState returns the directory for the state of a Source made from what is
// at place, unless the user names one.
func DefaultState(place string, isPath bool, lookup func(string) (string, bool)) (string, error) {
	dir, err := statedir.Default(place, isPath, lookup)
	if err != nil {
		return "", term.Usage(err, "give one with --state")
	}
	return dir, nil
}
