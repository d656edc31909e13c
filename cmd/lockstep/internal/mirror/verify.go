package mirror

import (
	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/term"
)

// DeclareVerify declares --verify.
func DeclareVerify(flags *pflag.FlagSet, value *string) {
	flags.StringVar(value, "verify", "strongest", "verify contents by `WHICH` of the hashes that the Source states: strongest, all")
}

// ParseVerify reads the value of --verify, and reports whether all hashes are verified.
func ParseVerify(value string) (all bool, err error) {
	if value != "strongest" && value != "all" {
		return false, term.Usagef("--verify %q: want strongest or all", value)
	}
	return value == "all", nil
}
