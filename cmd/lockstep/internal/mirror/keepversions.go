package mirror

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
)

// keepNone is the word that has a mirror forget its versions.
const keepNone = "off"

// DeclareKeep declares --keep-versions.
func DeclareKeep(flags *pflag.FlagSet, value *string) {
	flags.StringVar(value, "keep-versions", "", "keep what is replaced in DEST or removed, so that sync --at can bring it back. `WHICH` is all, how many of each resource, or for how long, as 90d; off removes them (default as before)")
	flags.Lookup("keep-versions").NoOptDefVal = "all"
}

// ParseKeepVersions reads the value of --keep-versions.
func ParseKeepVersions(value string) (destination.Keep, error) {
	switch strings.TrimSpace(value) {
	case "":
		return destination.Keep{}, nil
	case keepNone:
		return destination.Keep{None: true}, nil
	}
	v, err := config.ParseKeep(value)
	if err != nil {
		return destination.Keep{}, term.Usage(fmt.Errorf("--keep-versions: %w", err), "to forget the versions that are kept, write "+keepNone)
	}
	return destination.Keep{All: v.All, Count: v.Count, Age: v.Age}, nil
}
