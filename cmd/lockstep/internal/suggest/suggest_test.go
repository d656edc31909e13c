package suggest

import (
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/spf13/cobra"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	words := []string{"include", "exclude", "dry-run", "json", "State"}
	for in, want := range map[string]string{
		"inclde": "include", "excludes": "exclude", "dryrun": "dry-run", "JSON": "json", "state": "State", "jsn": "json",
		"something-else": "", "": "", "x": "",
	} {
		if got := Nearest(in, words); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestFlag: the hint names the flag of this command that is most like the mistyped one,
// else the commands that have it.
func TestFlag(t *testing.T) {
	t.Parallel()
	const list = "lockstep sync --help lists the flags"
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"sync", "--inclde", "x"}, "did you mean --include? " + list},
		{[]string{"sync", "--jsn"}, "did you mean --json? " + list},
		{[]string{"sync", "--listen", "x"}, "it is a flag of lockstep hub, lockstep serve; " + list},
		{[]string{"sync", "--zzzzzzzzzz"}, list},
		{[]string{"sync", "-verbose"}, "did you mean --verbose? " + list},
		{[]string{"sync", "-dry-run"}, "did you mean --dry-run? " + list},
		{[]string{"sync", "-z"}, list},
		{[]string{"sync", "--include"}, list}, // without a value
	} {
		root := &cobra.Command{Use: "lockstep", SilenceErrors: true, SilenceUsage: true}
		root.SetOut(io.Discard)
		root.PersistentFlags().Bool("json", false, "")
		root.PersistentFlags().BoolP("verbose", "v", false, "")
		hint := ""
		root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
			hint = Flag(cmd, tt.args, err)
			return err
		})
		for _, name := range []string{"sync", "serve", "hub"} {
			cmd := &cobra.Command{Use: name, RunE: func(*cobra.Command, []string) error { return errors.New("it has run") }}
			if name == "sync" {
				cmd.Flags().String("include", "", "")
				cmd.Flags().BoolP("dry-run", "n", false, "")
			} else {
				cmd.Flags().String("listen", "", "")
			}
			root.AddCommand(cmd)
		}
		root.SetArgs(tt.args)
		if err := root.Execute(); err == nil || hint != tt.want {
			t.Errorf("%q: %v, hint %q, want %q", tt.args, err, hint, tt.want)
		}
	}
}

// TestVariables: variables that nothing reads are found; those of other programs are theirs.
func TestVariables(t *testing.T) {
	t.Parallel()
	environ := []string{
		"PATH=/bin", "LOCKSTEP_STAET=x", "LOCKSTEP_STATE=x", "LOCKSTEP_WHATEVER=1", "LOCKSTEP_TEST_POSTGRES=x", "LOCKSTEP_SOURCE=x", "LOCKSTEP_RESYNC=x",
		"LOCKSTEP_GENERAL_CLIENT=1", "LOCKSTEP_SERVICE_HOST=10.0.0.1", "LOCKSTEP_SERVICE_PORT=80", "LOCKSTEP_SERVICE_PORT_HTTP=80", "LOCKSTEP_PORT=tcp://10.0.0.1:80",
		"LOCKSTEP_PORT_80_TCP=tcp://10.0.0.1:80", "LOCKSTEP_PORT_80_TCP_ADDR=10.0.0.1", "LOCKSTEP_HUB_SERVICE_HOST=10.0.0.2", "LOCKSTEP_PORT_=1", "OTHER_LOCKSTEP_X=1", "LOCKSTEP_EMPTY=",
	}
	want := []Variable{{"LOCKSTEP_PORT_", ""}, {"LOCKSTEP_STAET", "LOCKSTEP_STATE"}, {"LOCKSTEP_WHATEVER", ""}}
	if got := Variables(environ, []string{"LOCKSTEP_STATE", "LOCKSTEP_INCLUDE"}); !slices.Equal(got, want) {
		t.Errorf("Variables = %v, want %v", got, want)
	}
}
