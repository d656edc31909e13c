package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/help"
	"lockstep/cmd/lockstep/internal/suggest"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/fetch"
)

// envName returns the environment variable that can be set in place of a flag.
func envName(flag string) string {
	return suggest.Prefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// WarnOfUnknown warns of variables that begin as those for flags do, and are for none of any
// command below root.
func WarnOfUnknown(root *cobra.Command, environ []string, warn func(format string, args ...any)) {
	var known []string
	add := func(f *pflag.Flag) { known = append(known, envName(f.Name)) }
	root.PersistentFlags().VisitAll(add)
	for _, cmd := range help.Commands(root) {
		cmd.Flags().VisitAll(add)
	}
	for _, v := range suggest.Variables(environ, known) {
		text := "warning: the variable " + fetch.Printable(v.Name) + " of the environment sets nothing: there is no such flag\n"
		if v.Near != "" {
			text += "hint: did you mean " + v.Near + "?\n"
		}
		warn("%s", text)
	}
}

// FromEnvironment reports whether the value of a flag is what the environment
// says, and perhaps for other commands.
func FromEnvironment(flag, value string, lookup func(string) (string, bool)) bool {
	v, ok := lookup(envName(flag))
	return ok && v == value
}

// FlagsFromEnvironment sets the flags that the command line does not from the
// environment. A flag that may be repeated takes one value per line.
func FlagsFromEnvironment(flags *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var first error
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "help" || f.Name == "version" || first != nil {
			return
		}
		value, ok := lookup(envName(f.Name))
		if !ok || value == "" {
			return
		}
		values := []string{value}
		if f.Value.Type() == "stringArray" {
			values = strings.Split(strings.TrimRight(value, "\n"), "\n")
		}
		for _, v := range values {
			if err := flags.Set(f.Name, v); err != nil {
				first = term.Usage(fmt.Errorf("read %s: %w", envName(f.Name), plainValueError(f, v, err)), "it sets the flag --"+f.Name)
				return
			}
		}
	})
	return first
}

// Given returns the values of the flags that were set so far, by flag name.
func Given(flags *pflag.FlagSet) map[string][]string {
	values := map[string][]string{}
	flags.Visit(func(f *pflag.Flag) { values[f.Name] = valuesOf(f) })
	return values
}

// Give sets flags to the values that [Given] has returned for others of the same names,
// and leaves out those that flags does not have.
func Give(flags *pflag.FlagSet, values map[string][]string) error {
	for name, vs := range values {
		f := flags.Lookup(name)
		if f == nil {
			continue
		}
		var err error
		if list, ok := f.Value.(pflag.SliceValue); ok {
			err = list.Replace(vs)
		} else {
			err = f.Value.Set(vs[0])
		}
		if err != nil {
			return fmt.Errorf("--%s: %w", name, err)
		}
		f.Changed = true
	}
	return nil
}

// Differences returns the keys of the configuration file whose values are not the same in
// two sets of flags, in order.
func Differences(a, b *pflag.FlagSet) (keys []string) {
	a.VisitAll(func(f *pflag.Flag) {
		if g := b.Lookup(f.Name); g != nil && !slices.Equal(valuesOf(f), valuesOf(g)) {
			keys = append(keys, configKey(f.Name))
		}
	})
	slices.Sort(keys)
	return keys
}

// valuesOf returns the values of a flag.
func valuesOf(f *pflag.Flag) []string {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return list.GetSlice()
	}
	return []string{f.Value.String()}
}

// FlagsFromFile sets the flags that neither command line nor environment set
// from a configuration file, given as values per flag name.
func FlagsFromFile(flags *pflag.FlagSet, file string, values map[string][]string) error {
	if err := FlagsFromKeys(flags, values); err != nil {
		return term.Usagef("read configuration %s: %w", file, err)
	}
	return nil
}

// FlagsFromKeys is FlagsFromFile for an error that does not name the file.
func FlagsFromKeys(flags *pflag.FlagSet, values map[string][]string) error {
	for name, vs := range values {
		f := flags.Lookup(name)
		if f == nil || f.Changed {
			continue
		}
		for _, v := range vs {
			if err := f.Value.Set(v); err != nil {
				return fmt.Errorf("%s: %w", configKey(name), plainValueError(f, v, err))
			}
		}
		f.Changed = true
	}
	return nil
}

// PlainFlagError returns an error about the flags of the command line without the words of
// Go's parsers.
func PlainFlagError(err error) error {
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	switch f := invalid.GetFlag(); f.Value.Type() {
	case "bool", "duration", "int", "float64":
		return fmt.Errorf("--%s: %w", f.Name, plainValueError(f, invalid.GetValue(), err))
	}
	return err
}

// plainValueError says which values a flag accepts, when v is not one.
func plainValueError(f *pflag.Flag, v string, err error) error {
	switch f.Value.Type() {
	case "bool":
		return fmt.Errorf("%q: want true or false", v)
	case "duration":
		return fmt.Errorf("%q is no duration; write 720h or 90s", v)
	case "int", "float64":
		return fmt.Errorf("%q is no number", v)
	}
	return err
}

// RefuseEmptyFlags refuses a flag whose value on the command line is empty, which
// an unset variable of a script usually makes it: --state "" is not the default
// state. An empty --bandwidth means no limit, an empty --base-url the default in place of the
// configuration's.
func RefuseEmptyFlags(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		var values []string
		switch v := f.Value.(type) {
		case pflag.SliceValue:
			values = v.GetSlice()
		default:
			if f.Value.Type() != "string" && f.Name != "netrc" || f.Name == "bandwidth" || f.Name == "base-url" {
				return
			}
			values = []string{f.Value.String()}
		}
		for _, v := range values {
			if err == nil && strings.TrimSpace(v) == "" {
				err = term.Usage(fmt.Errorf("--%s is empty", f.Name), "give a value, or leave the flag out; is a variable of your script unset?")
			}
		}
	})
	return err
}
