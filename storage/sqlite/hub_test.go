package sqlite_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"lockstep/hub"
	"lockstep/hub/hubtest"
	"lockstep/storage/sqlite"
)

func TestHub(t *testing.T) {
	t.Parallel()
	hubtest.Run(t, func(t *testing.T) hub.Store {
		return open(t, sqlite.Options{}, filepath.Join(t.TempDir(), "hub.db")).Hub()
	})
}

func TestHubReopen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hub.db")
	var db *sqlite.DB
	hubtest.RunReopen(t, func() hub.Store {
		var err error
		if db, err = sqlite.Open(path); err != nil {
			t.Fatal(err)
		}
		return db.Hub()
	}, func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

const hubKillEnv = "LOCKSTEP_TEST_HUB_KILL"

// TestHubKill kills a process that accepts messages (WS-C-12, RN-PB-05).
func TestHubKill(t *testing.T) {
	if path := os.Getenv(hubKillEnv); path != "" {
		db, err := sqlite.Open(path)
		if err == nil {
			err = hubtest.Victim(t.Context(), db.Hub(), os.Stdout)
		}
		fmt.Println(err)
		return
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hub.db")
	command := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0], "-test.run=^TestHubKill$")
		cmd.Env = append(os.Environ(), hubKillEnv+"="+path)
		return cmd
	}
	var db *sqlite.DB
	hubtest.RunKill(t, 15, command, func() hub.Store {
		var err error
		if db, err = sqlite.Open(path); err != nil {
			t.Fatal(err)
		}
		return db.Hub()
	}, func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}
