// Package suggest says what was probably meant by a mistyped word: a key, a flag, or a
// variable of the environment.
package suggest

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Nearest returns the word most like s, or "" if none is much like it. Case does not
// matter.
func Nearest(s string, words []string) string {
	best, distance := "", 1+max(2, len(s)/3)
	for _, w := range words {
		if d := editDistance(strings.ToLower(s), strings.ToLower(w)); d < distance {
			best, distance = w, d
		}
	}
	return best
}

// editDistance counts the insertions, deletions and replacements that turn a
// into b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// Flag returns a hint for an error about the flags of a command in the arguments args.
func Flag(cmd *cobra.Command, args []string, err error) string {
	list := cmd.CommandPath() + " --help lists the flags"
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return list
	}
	name := unknown.GetSpecifiedName()
	if letters := unknown.GetSpecifiedShortnames(); letters != "" {
		if name = longName(letters, args); name == "" {
			return list
		}
	}
	own := flagsOf(cmd)
	var others []string
	for _, other := range cmd.Root().Commands() {
		if other.Flags().Lookup(name) != nil && !slices.Contains(own, name) {
			others = append(others, other.CommandPath())
		}
	}
	if len(others) > 0 {
		return fmt.Sprintf("it is a flag of %s; %s", strings.Join(others, ", "), list)
	}
	if near := Nearest(name, own); near != "" {
		return "did you mean --" + near + "? " + list
	}
	return list
}

// Value returns a hint for too many arguments if one of them may be meant as the value of a
// flag that also stands without one, which has to follow an equals sign; else "".
func Value(flags *pflag.FlagSet, args []string) (hint string) {
	flags.Visit(func(f *pflag.Flag) {
		isSwitch := f.Value.Type() == "bool" && f.Name != "netrc"
		if f.NoOptDefVal == "" || f.Value.String() != f.NoOptDefVal || isSwitch && !slices.Contains(args, "true") && !slices.Contains(args, "false") {
			return
		}
		hint = "a value of --" + f.Name + " has to follow an equals sign: --" + f.Name + "=VALUE"
	})
	return hint
}

// longName returns the word that was written with one dash and ends in letters; "" if
// there is none.
func longName(letters string, args []string) string {
	for _, arg := range args {
		word, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") && len(word) > 2 && strings.HasSuffix(arg, letters) {
			return word
		}
	}
	return ""
}

// flagsOf returns the names of the flags of a command.
func flagsOf(cmd *cobra.Command) (names []string) {
	add := func(f *pflag.Flag) { names = append(names, f.Name) }
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return names
}

// Prefix begins the names of variables that set flags.
const Prefix = "LOCKSTEP_"

// others are variables that are no flags: those that --exec and --on-failure set for a command, which may
// run lockstep itself, and those for development.
var others = []string{"LOCKSTEP_SOURCE", "LOCKSTEP_DEST", "LOCKSTEP_SET", "LOCKSTEP_CHANGES", "LOCKSTEP_COMMAND", "LOCKSTEP_EXIT_CODE", "LOCKSTEP_GENERAL_CLIENT", "LOCKSTEP_RESYNC", "LOCKSTEP_SICKLE"}

// foreign matches variables that are set by other programs: by tests, and by Kubernetes for
// services whose names begin with "lockstep".
var foreign = regexp.MustCompile(`^LOCKSTEP_(TEST|BENCH)_|_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)=|_PORT=\w+://`)

// A Variable is a variable of the environment that nothing reads.
type Variable struct {
	Name string
	Near string // that may be meant; "" if none is much like it
}

// Variables returns those in environ, lines NAME=VALUE, that begin as ours do, and are none of
// known.
func Variables(environ, known []string) (unknown []Variable) {
	bare := make([]string, len(known)) // all begin alike
	for i := range known {
		bare[i] = strings.TrimPrefix(known[i], Prefix)
	}
	for _, line := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(line, "=")
		if !strings.HasPrefix(name, Prefix) || value == "" || slices.Contains(known, name) || slices.Contains(others, name) || foreign.MatchString(line) {
			continue
		}
		v := Variable{Name: name, Near: Nearest(strings.TrimPrefix(name, Prefix), bare)}
		if v.Near != "" {
			v.Near = Prefix + v.Near
		}
		unknown = append(unknown, v)
	}
	return unknown
}
