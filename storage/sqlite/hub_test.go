package sqlite_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep/hub/hubstore"
	"lockstep/hub/hubtest"
	"lockstep/storage/internal/sqldb"
	"lockstep/storage/sqlite"
)

func TestHub(t *testing.T) {
	t.Parallel()
	hubtest.Run(t, func(t *testing.T) hubstore.Store {
		return open(t, sqlite.Options{}, filepath.Join(t.TempDir(), "hub.db")).Hub()
	})
}

func TestHubReopen(t *testing.T) {
	t.Parallel()
	open, shut := again(t, filepath.Join(t.TempDir(), "hub.db"))
	hubtest.RunReopen(t, func() hubstore.Store { return open().Hub() }, shut)
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
	hubtest.RunKill(t, 15, command, func() hubstore.Store {
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

// TestHubOlder opens a database from before hubs were introduced.
func TestHubOlder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "catalog.db")
	if err := open(t, sqlite.Options{}, path).Close(); err != nil {
		t.Fatal(err)
	}
	tamper(t, path, `DELETE FROM schema_version WHERE name = 'hub'`)
	for _, table := range []string{"topic", "mark", "message", "subscription", "progress", "request", "owner", "claim", "replay"} {
		tamper(t, path, `DROP TABLE hub_`+table)
	}
	h := open(t, sqlite.Options{}, path).Hub()
	if seqs, err := h.Append(t.Context(), []hubstore.Message{{Topic: "t"}}); err != nil || seqs[0] != 1 {
		t.Errorf("Append = %v, %v", seqs, err)
	}
}

func TestHubNewer(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hub.db")
	if err := open(t, sqlite.Options{}, path).Close(); err != nil {
		t.Fatal(err)
	}
	tamper(t, path, `UPDATE schema_version SET version = 99 WHERE name = 'hub'`)
	if _, err := sqlite.Open(path); !errors.Is(err, sqldb.ErrNewer) || !strings.Contains(err.Error(), "hub schema has version 99") {
		t.Errorf("Open = %v", err)
	}
}

func TestHubDamaged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hub.db")
	h := open(t, sqlite.Options{}, path).Hub()
	m := hubstore.Message{Topic: "t", Links: []string{"link"}}
	if _, err := h.Append(t.Context(), []hubstore.Message{m, m, m}); err != nil {
		t.Fatal(err)
	}
	tamper(t, path, `UPDATE hub_message SET links = x'09ff' WHERE seq = 2`)
	var got []string
	for m, err := range h.Log(t.Context(), "t", 0) {
		got = append(got, fmt.Sprintf("%d %v", m.Seq, err))
	}
	want := []string{"1 <nil>", "0 read log of t: message 2: damaged value"}
	if !slices.Equal(got, want) {
		t.Errorf("Log = %q, want %q", got, want)
	}
}
