package main

import (
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/cmd/lockstep/internal/help"
	"lockstep/cmd/lockstep/internal/term"
)

// TestValuesOfFlags: every value that shells offer for a flag is one that its
// description names.
func TestValuesOfFlags(t *testing.T) {
	t.Parallel()
	root := newRoot(term.IO{Out: io.Discard, Err: io.Discard, LookupEnv: os.LookupEnv}, nil)
	offered := map[string]bool{}
	for _, cmd := range append([]*cobra.Command{root}, help.Commands(root)...) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			values := completion.Values(f.Name)
			offered[f.Name] = values != nil
			words := strings.FieldsFunc(f.Usage+" "+f.DefValue, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' })
			for _, v := range values {
				if f.Name != "hash" && !slices.Contains(words, v) {
					t.Errorf("%s: %s is offered for --%s, which says %q", cmd.Name(), v, f.Name, f.Usage)
				}
			}
		})
	}
	for _, name := range []string{"via", "delete", "channel", "check-local", "log-level", "log-format", "verify"} {
		if !offered[name] {
			t.Errorf("no values are offered for --%s", name)
		}
	}
}
