//go:build unix

package destination_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/destination"
	"lockstep/storage/sqlite"
)

// TestKeepKill kills runs of a mirror that keeps versions at random moments: the
// state after every completed run can be restored.
func TestKeepKill(t *testing.T) {
	t.Parallel()
	const files, rounds, kills = 100, 2, 3
	s := newSite(t, style{})
	rnd := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	var asked atomic.Int64
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/d") {
			asked.Add(1)
		}
		return false
	})
	k := newKeeping(t, s, destination.Keep{All: true})
	db, err := openState(k.dir)
	if err != nil {
		t.Fatal(err)
	}
	type state struct {
		at    time.Time
		files map[string]string
	}
	var states []state
	for round := range rounds {
		for i := range files {
			switch path := fmt.Sprintf("/d%d/f%03d", i%7, i); {
			case round > 0 && rnd.IntN(6) == 0:
				s.del(path)
			case round == 0 || rnd.IntN(2) == 0:
				s.put(path, strings.Repeat(fmt.Sprintf("%d of %d;", round, i), 1+rnd.IntN(9000)))
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		for range kills {
			goal := asked.Load() + 1 + rnd.Int64N(files/4)
			killSync(t, s.srv.URL, k.dir, func() bool { return asked.Load() >= goal }, rnd, "LOCKSTEP_TEST_KEEP=1")
		}
		if db, err = openState(k.dir); err != nil {
			t.Fatal(err)
		}
		k.journal = db.Journal()
		at, was := k.run()
		states = append(states, state{at, was})
	}
	defer db.Close()
	for _, st := range states {
		k.was(st.at, st.files)
	}
}

// openState opens the Journal of a mirror in a directory.
func openState(dir string) (*sqlite.DB, error) {
	if err := blob.MakeDir(filepath.Join(dir, ".lockstep")); err != nil {
		return nil, err
	}
	return sqlite.Open(filepath.Join(dir, destination.StateFile))
}
