package help

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestWidth: help fits into the columns of a terminal; examples, and where there is no terminal
// the text as it is written, do not change.
func TestWidth(t *testing.T) {
	t.Parallel()
	const long = "This text is one that is written in lines that are a little longer than the terminal\nis wide, and is wrapped again there.\n\nThis one is not."
	for _, columns := range []int{0, 60, 80, 200} {
		run := func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		root := &cobra.Command{Use: "tool", Long: long, Example: "  tool " + strings.Repeat("x", 90)}
		below := &cobra.Command{Use: "work", Short: "Do the work that has to be done, which takes more words to say than others need", RunE: run}
		root.AddCommand(below)
		below.Flags().Int("some-flag", 7, strings.Repeat("do something with it ", 8))
		Declare(root, columns)
		var out bytes.Buffer
		root.SetOut(&out)
		for _, args := range [][]string{{"--help"}, {"work", "--help"}} {
			root.SetArgs(args)
			if err := root.Execute(); err != nil {
				t.Fatal(err)
			}
		}
		for line := range strings.Lines(out.String()) {
			if line = strings.TrimSuffix(line, "\n"); columns > 0 && len(line) > columns && !strings.Contains(line, "xxx") {
				t.Errorf("%d columns: %q", columns, line)
			}
		}
		if kept := strings.Contains(out.String(), long); kept != (columns != 60 && columns != 80) {
			t.Errorf("%d columns: %s", columns, &out)
		}
	}
}
