package postgres_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/hub/hubstore"
	"lockstep/hub/hubtest"
	"lockstep/storage/postgres"
	"lockstep/storage/postgres/postgrestest"
)

const killEnv = "LOCKSTEP_TEST_POSTGRES_KILL" // address of the database

// child runs a test of this binary again, as a separate process.
func child(test, url string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), killEnv+"="+url)
	return cmd
}

// TestHubKill kills a process that accepts messages (WS-C-12, RN-PB-05).
func TestHubKill(t *testing.T) {
	if url := os.Getenv(killEnv); url != "" {
		db, err := postgres.Open(t.Context(), url)
		if err == nil {
			err = hubtest.Victim(t.Context(), db.Hub(), os.Stdout)
		}
		fmt.Println(err)
		return
	}
	t.Parallel()
	url := postgrestest.URL(t)
	open, shut := again(t, url)
	name := fmt.Sprintf("kill-%d", time.Now().UnixNano())
	command := func() *exec.Cmd { return child("TestHubKill", with(t, url, "application_name", name)) }
	hubtest.RunKill(t, 10, command, func() hubstore.Store {
		until(t, "the end of what the server does for the killed process", func() bool {
			return number(t, url, `SELECT COUNT(*) FROM pg_stat_activity WHERE application_name = '`+name+`'`) == 0
		})
		return open().Hub()
	}, shut)
}

const (
	killTTL   = 500 * time.Millisecond
	killPause = 20 * time.Millisecond
)

// An owner is a process that claims its fair share of the shards.
type owner struct {
	cmd *exec.Cmd

	mu     sync.Mutex // guards shards
	shards []int      // that it has reported
}

func (o *owner) has() []int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.shards
}

// TestOwnerKill kills one of three processes that share a store: the others
// take over its shards.
func TestOwnerKill(t *testing.T) {
	if url := os.Getenv(killEnv); url != "" {
		fmt.Println(own(t, url))
		return
	}
	t.Parallel()
	url := postgrestest.URL(t)
	owners := make([]*owner, 3)
	for i := range owners {
		owners[i] = startOwner(t, url)
	}
	shared(t, owners)
	if err := owners[1].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	shared(t, []*owner{owners[0], owners[2]})
	t.Logf("taken over after %v, with leases of %v", time.Since(began), killTTL)
	shared(t, []*owner{owners[0], owners[2], startOwner(t, url)})
}

// own claims until it is killed, and prints its shards.
func own(t *testing.T, url string) error {
	db, err := postgres.Open(t.Context(), url)
	if err != nil {
		return err
	}
	name, want := strconv.Itoa(os.Getpid()), hubstore.Shards
	for tick := time.Tick(killPause); ; <-tick {
		shards, owners, err := db.Hub().Claim(t.Context(), name, want, killTTL)
		if err != nil {
			return err
		}
		want = (hubstore.Shards + owners - 1) / owners
		fmt.Println(strings.Trim(fmt.Sprint(shards), "[]"))
	}
}

func startOwner(t *testing.T, url string) *owner {
	t.Helper()
	o := &owner{cmd: child("TestOwnerKill", url)}
	out, err := o.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := o.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var shards []int
			for _, f := range strings.Fields(lines.Text()) {
				n, err := strconv.Atoi(f)
				if err != nil {
					t.Errorf("owner: %s", lines.Text())
					break
				}
				shards = append(shards, n)
			}
			o.mu.Lock()
			o.shards = shards
			o.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = o.cmd.Process.Kill() // it may be dead
		<-done
		_ = o.cmd.Wait() // killed
	})
	return o
}

// shared waits until the owners together have all shards, evenly divided.
func shared(t *testing.T, owners []*owner) {
	t.Helper()
	deadline := time.After(time.Minute)
	for tick := time.Tick(killPause); ; {
		var all []int
		even := true
		for _, o := range owners {
			has := o.has()
			even = even && len(has) >= hubstore.Shards/len(owners)-len(owners)
			all = append(all, has...)
		}
		slices.Sort(all)
		if even && len(all) == hubstore.Shards && len(slices.Compact(all)) == hubstore.Shards {
			return
		}
		select {
		case <-tick:
		case <-deadline:
			t.Fatalf("the owners have %d shards in the end", len(all))
		}
	}
}
