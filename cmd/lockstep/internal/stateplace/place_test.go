package stateplace_test

import (
	"path/filepath"
	"strings"
	"testing"

	"lockstep/cmd/lockstep/internal/stateplace"
	"lockstep/cmd/lockstep/internal/term"
)

func TestParse(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	lookup := func(name string) (string, bool) { return home, name == "XDG_STATE_HOME" }
	parse := func(state string) stateplace.Place {
		t.Helper()
		p, err := stateplace.Parse(state, lookup)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := parse("some/dir"); p.InDatabase() || p.Dir != "some/dir" || p.String() != "some/dir" {
		t.Errorf("a directory is %+v", p)
	}
	plain := parse("postgres://me@db.example.org/maps")
	if !plain.InDatabase() || filepath.Dir(plain.Dir) != filepath.Join(home, "lockstep") || plain.String() != "postgres://me@db.example.org/maps" {
		t.Errorf("a database is %+v", plain)
	}
	for _, state := range []string{"postgres://me:pass-word@db.example.org/maps", "postgres://me@db.example.org/maps?password=pass-word", "postgres://me@db.example.org/maps?sslpassword=pass-word"} {
		if p := parse(state); p.Dir != plain.Dir || p.String() != plain.String() {
			t.Errorf("%s is in %s, called %s; want those of the URL without a password", state, p.Dir, p)
		}
	}
	if p := parse("postgresql://me@db.example.org/maps?search_path=other"); p.Dir == plain.Dir {
		t.Errorf("another schema has the same directory %s", p.Dir)
	}
	for _, state := range []string{"s3://bucket/state", "postgres://me:pass-word@db example/%zz"} {
		_, err := stateplace.Parse(state, lookup)
		if err == nil || term.HintOf(err) == "" || strings.Contains(err.Error(), "pass-word") {
			t.Errorf("%s: %v, %s", state, err, term.HintOf(err))
		}
	}
}
