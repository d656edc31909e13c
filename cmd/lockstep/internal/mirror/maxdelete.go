package mirror

import (
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"lockstep/destination"
)

// DeclareMaxDelete declares --max-delete, whose value may have a percent sign.
func DeclareMaxDelete(flags *pflag.FlagSet, value *int, usage string) {
	*value = destination.DefaultMaxDelete
	flags.Var((*percentValue)(value), "max-delete", usage)
}

// A percentValue is the value of a flag in percent. It is not limited to 100.
type percentValue int

// Set implements [pflag.Value].
func (p *percentValue) Set(s string) error {
	v, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(s), "%")))
	if err != nil {
		return err
	}
	*p = percentValue(v)
	return nil
}

// String implements [pflag.Value].
func (p *percentValue) String() string { return strconv.Itoa(int(*p)) }

// Type implements [pflag.Value]. Errors about the value are those about a number.
func (p *percentValue) Type() string { return "int" }
