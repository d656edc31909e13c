package patch_test

import (
	"os"
	"path/filepath"

	"lockstep/patch"
)

// tb is what *testing.T and *rapid.T share.
type tb interface {
	Helper()
	Fatal(...any)
	Errorf(string, ...any)
}

func must(t tb, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t tb, root, rel, text string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(root, rel), []byte(text), 0o644))
}

var deltas patch.Deltas // shared, so that encoders are reused
