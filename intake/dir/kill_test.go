package dir_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/catalog"
	"lockstep/intake/dir"
	"lockstep/storage/sqlite"
)

// TestKilled: a scan killed at any moment deletes nothing it should not, and
// the next one makes the catalog the tree.
func TestKilled(t *testing.T) {
	t.Parallel()
	if root := os.Getenv("INTAKE_TEST_KILL"); root != "" {
		scanSQLite(t, root, os.Getenv("INTAKE_TEST_STATE"))
		return
	}
	root, state := t.TempDir(), t.TempDir()
	for i := range 1500 {
		write(t, root, fmt.Sprintf("%d/%d", i%30, i), fmt.Sprint(i))
	}
	for round := range 6 {
		for range 100 {
			i := rand.IntN(1500)
			rel := fmt.Sprintf("%d/%d", i%30, i)
			if rand.IntN(2) == 0 {
				must(t, os.RemoveAll(filepath.Join(root, rel)))
			} else {
				write(t, root, rel, fmt.Sprint("round ", round))
			}
		}
		c := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		c.Env = append(os.Environ(), "INTAKE_TEST_KILL="+root, "INTAKE_TEST_STATE="+state)
		must(t, c.Start())
		kill := time.AfterFunc(time.Duration(rand.IntN(120))*time.Millisecond, func() { _ = c.Process.Kill() })
		_ = c.Wait() // killed, or done before
		kill.Stop()
	}
	cat := scanSQLite(t, root, state)
	if diff := cmp.Diff(look(t, root).want(nil), holds(t, cat)); diff != "" {
		t.Error(diff)
	}
}

func scanSQLite(t *testing.T, root, state string) catalog.Catalog {
	t.Helper()
	db, err := sqlite.Open(filepath.Join(state, "catalog.db"))
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	_, err = newDir(t, root, db.Catalog(), dir.Options{}).Scan(context.Background())
	must(t, err)
	return db.Catalog()
}
