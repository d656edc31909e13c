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

// TestHubAgain: what is written by statements that were compiled for an earlier
// write is the same, however many rows they write.
func TestHubAgain(t *testing.T) {
	t.Parallel()
	h := open(t, sqlite.Options{}, filepath.Join(t.TempDir(), "hub.db")).Hub()
	const topics = 61 // rows are written 50, 10 and 1 at a time
	topic := func(i int) string { return fmt.Sprintf("https://source.example/%d", i) }
	var put hubstore.Changes
	for i := range topics {
		put.Put = append(put.Put, hubstore.Subscription{Key: hubstore.KeyOf(topic(i), "c"), Topic: topic(i), Callback: "c"})
	}
	if err := h.Save(t.Context(), put); err != nil {
		t.Fatal(err)
	}
	for round := range int64(3) {
		var messages []hubstore.Message
		moved := hubstore.Changes{Progress: map[hubstore.Key]hubstore.Progress{}}
		for i := range topics {
			messages = append(messages, hubstore.Message{Topic: topic(i), Body: fmt.Append(nil, i, round)})
			moved.Progress[hubstore.KeyOf(topic(i), "c")] = hubstore.Progress{Cursor: round + 1, Taken: int64(i)}
		}
		seqs, err := h.Append(t.Context(), messages)
		if err != nil || seqs[0] != round+1 || seqs[topics-1] != round+1 {
			t.Fatalf("round %d: Append = %v, %v", round, seqs, err)
		}
		if err := h.Save(t.Context(), moved); err != nil {
			t.Fatalf("round %d: Save = %v", round, err)
		}
		rows := 0
		for s, err := range h.Subscriptions(t.Context(), -1) {
			if want := moved.Progress[s.Key]; err != nil || s.Progress != want {
				t.Fatalf("round %d: progress %+v, %v; want %+v", round, s.Progress, err, want)
			}
			rows++
		}
		if rows != topics {
			t.Fatalf("round %d: %d subscriptions, want %d", round, rows, topics)
		}
		for i := range topics {
			for m, err := range h.Log(t.Context(), topic(i), round) {
				if want := fmt.Sprint(i, round); err != nil || string(m.Body) != want {
					t.Fatalf("round %d: message %q, %v; want %q", round, m.Body, err, want)
				}
			}
		}
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
