package config

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/term"
)

// A Need is something without which flags do nothing.
type Need struct {
	Flags []string // names
	Of    string   // what they need, for people; "" if Not says which flag they contradict
	Not   string   // the flag, with its value, beside which they do nothing
	Met   bool
}

// OnCommandLine returns the names of the flags that the command line gives, in order. It is to
// be called before a configuration file is read. What the environment gives may be meant for
// other commands.
func OnCommandLine(flags *pflag.FlagSet, lookup func(string) (string, bool)) (names []string) {
	flags.Visit(func(f *pflag.Flag) {
		if !fromEnvironment(f, lookup) {
			names = append(names, f.Name)
		}
	})
	return names
}

// fromEnvironment is FromEnvironment for the value of a flag however the variable writes it,
// as 90m for 1h30m0s.
func fromEnvironment(f *pflag.Flag, lookup func(string) (string, bool)) bool {
	v, _ := lookup(envName(f.Name))
	switch f.Value.Type() {
	case "duration":
		d, err := time.ParseDuration(v)
		return err == nil && d.String() == f.Value.String()
	case "bool":
		b, err := strconv.ParseBool(v)
		return err == nil && strconv.FormatBool(b) == f.Value.String()
	}
	return v != "" && strings.TrimRight(v, "\n") == strings.Join(valuesOf(f), "\n")
}

// RefuseUnmet refuses flags among given, of [OnCommandLine], that do nothing.
func RefuseUnmet(given []string, needs ...Need) error {
	for _, n := range needs {
		for _, name := range n.Flags {
			switch {
			case n.Met || !slices.Contains(given, name):
			case n.Of == "":
				return term.Usage(errors.New("--"+name+" and "+n.Not+" contradict each other"), "leave out one of them")
			default:
				return term.Usage(errors.New("--"+name+" needs "+n.Of+": without it, it does nothing"), "give both, or leave out --"+name)
			}
		}
	}
	return nil
}

// RefuseWithout refuses flags that do nothing without another one: needed has pairs of
// names, as "sample origin", or with several of which one is enough, "failure-after
// on-failure ping-url". In the environment they may be meant for other commands.
func RefuseWithout(flags *pflag.FlagSet, lookup func(string) (string, bool), needed []string) error {
	return RefuseUnmet(OnCommandLine(flags, lookup), Needs(flags, needed...)...)
}

// Needs returns what [RefuseWithout] refuses flags for.
func Needs(flags *pflag.FlagSet, needed ...string) (needs []Need) {
	for _, line := range needed {
		names := strings.Fields(line)
		n := Need{Flags: names[:1], Of: "--" + strings.Join(names[1:], " or --")}
		for _, other := range names[1:] {
			f := flags.Lookup(other)
			n.Met = n.Met || f.Value.String() != f.DefValue
		}
		needs = append(needs, n)
	}
	return needs
}
