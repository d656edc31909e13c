//go:build unix

package main

import (
	"database/sql"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lockstep/storage/postgres/postgrestest"
)

// TestSharedRestored: a standby that was opened before the state was restored from a backup opens it again,
// and says so. It knows nothing of what is not in the backup.
func TestSharedRestored(t *testing.T) {
	t.Parallel()
	database := postgrestest.URL(t)
	s := newSharedSourceIn(t, database, asTheyAre, sharedSets)
	first, standby := s.start(), s.start()
	const uri = "http://elsewhere.example/"
	balancer := func() string { return s.balancer.URL + "/" }
	s.written(balancer, uri+"saved", "text")
	s.listed(uri+"saved", "text")
	backup := filepath.Join(t.TempDir(), "backup.tar.gz")
	lockstep := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "lockstep", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	lockstep("state", "backup", database, backup)
	s.written(balancer, uri+"lost", "text")
	s.listed(uri+"lost", "text")

	signal := func(which syscall.Signal) {
		t.Helper()
		if err := standby.cmd.Process.Signal(which); err != nil {
			t.Fatal(err)
		}
	}
	signal(syscall.SIGSTOP) // as a process on a machine that is cut off
	s.leave(standby)
	if code, err := first.end(syscall.SIGTERM); err != nil || code != exitOK {
		t.Fatalf("ended with %d, %v\n%s", code, err, first.stderr)
	}
	s.leave(first)
	recreateSchema(t, database)
	lockstep("state", "restore", backup, database)
	next := s.start()
	s.written(func() string { return next.address }, uri+"new", "text")
	s.listed(uri+"new", "text")
	signal(syscall.SIGCONT)
	const want = "the state was restored or replaced after this process had opened it"
	waitFor(t, "that the standby opens the state again", func() bool { return strings.Contains(standby.stderr.String(), want) })
	s.written(func() string { return standby.address }, uri+"last", "text")
	s.listed(uri+"last", "text")
	c, err := crawlSource(standby.address)
	if err != nil {
		t.Fatal(err)
	}
	for name, there := range map[string]bool{"saved": true, "lost": false, "new": true, "last": true} {
		if _, ok := c.state[uri+name]; ok != there {
			t.Errorf("%s is listed: %t", name, ok)
		}
	}
	if said := next.stderr.String(); strings.Contains(said, want) {
		t.Errorf("the process that was started afterwards says\n%s", said)
	}
}

// recreateSchema empties a database of a test.
func recreateSchema(t *testing.T, database string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	schema := u.Query().Get("search_path")
	db, err := sql.Open("pgx", database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "DROP SCHEMA "+schema+" CASCADE; CREATE SCHEMA "+schema); err != nil {
		t.Fatal(err)
	}
}
