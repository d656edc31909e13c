package states_test

import (
	"bytes"
	"strings"
	"testing"

	"lockstep/cmd/lockstep/internal/states"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/statebackup"
)

// TestNoPassword: what is printed of a database has its address without the password.
func TestNoPassword(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"postgres://hub:5ecret@127.0.0.1:1/hub", "postgresql://hub@127.0.0.1:1/hub?password=5ecret"} {
		var out bytes.Buffer
		states.PrintRestored(term.IO{Out: &out, Err: &out}, &statebackup.Result{}, place)
		for _, fails := range []func() error{
			func() error { _, err := states.Look(t.Context(), place); return err },
			func() error { _, err := states.Check(t.Context(), place); return err },
			func() error { _, err := states.Migrate(t.Context(), place); return err },
			func() error { _, err := states.Backup(t.Context(), place, t.TempDir()+"/backup"); return err },
			func() error {
				_, err := states.Copy(t.Context(), place, t.TempDir()+"/hub.db", false, func(string, int64) {})
				return err
			},
		} {
			err := fails()
			if err == nil {
				t.Fatal("there is no database, and no error")
			}
			out.WriteString(err.Error() + "\n")
		}
		if text := out.String(); strings.Contains(text, "5ecret") || !strings.HasPrefix(text, "postgres") || !strings.Contains(text, "127.0.0.1:1/hub") {
			t.Errorf("printed %s", text)
		}
	}
}
