//go:build unix

package postgres_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockstep/storage/postgres"
	"lockstep/storage/postgres/postgrestest"
)

// TestOwnKilled: the database of a process that was killed is free after its lease.
func TestOwnKilled(t *testing.T) {
	if url := os.Getenv(killEnv); url != "" {
		writeAsOwner(t, url)
		return
	}
	t.Parallel()
	url := postgrestest.URL(t)
	db := open(t, postgres.Options{}, url)
	createWrites(t, url)
	victim, lines := startWriter(t, "TestOwnKilled", url)
	expectLine(t, lines, "written")
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	take(t, db, postgres.OwnOptions{Lease: shortLease, Wait: time.Minute})
	waited := time.Since(began)
	t.Logf("taken over after %v, with a lease of %v", waited, shortLease)
	if waited > shortLease+2*time.Second {
		t.Errorf("taken over after %v, with a lease of %v", waited, shortLease)
	}
	if err := write(t.Context(), db, "b"); err != nil {
		t.Error(err)
	}
}

// TestOwnStopped: a process that was paused for longer than its lease never writes again.
func TestOwnStopped(t *testing.T) {
	if url := os.Getenv(killEnv); url != "" {
		writeAsOwner(t, url)
		return
	}
	t.Parallel()
	for i := range 5 { // it is stopped at different points
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			url := postgrestest.URL(t)
			db := open(t, postgres.Options{}, url)
			createWrites(t, url)
			victim, lines := startWriter(t, "TestOwnStopped", url)
			for range 10 + i*7 {
				expectLine(t, lines, "written")
			}
			if err := victim.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			take(t, db, postgres.OwnOptions{Name: "b", Lease: time.Minute, Wait: time.Minute})
			if err := write(t.Context(), db, "b"); err != nil {
				t.Fatal(err)
			}
			if err := victim.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			defer time.AfterFunc(20*time.Second, func() { _ = victim.Process.Kill() }).Stop() // in case it writes for ever
			for line := range lines {                                                         // what it wrote before may come first
				if line != "written" && line != "lost" {
					t.Errorf("a write ended with: %s", line)
				}
			}
			if n := number(t, url, `SELECT COUNT(*) FROM writes WHERE seq > (SELECT seq FROM writes WHERE owner = 'b')`); n > 0 {
				t.Errorf("%d rows of the process that was stopped after the takeover", n)
			}
			if n := number(t, url, `SELECT COUNT(*) FROM writes WHERE owner = 'a'`); n == 0 {
				t.Error("no rows before the takeover")
			}
		})
	}
}

// writeAsOwner owns the database and writes until it has lost it, and some times more. It
// prints how each write has ended.
func writeAsOwner(t *testing.T, url string) {
	db, err := postgres.Open(t.Context(), url)
	if err == nil {
		_, err = db.Own(t.Context(), postgres.OwnOptions{Name: "a", Lease: shortLease})
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for failed := 0; failed < 10; {
		err := write(t.Context(), db, "a")
		switch {
		case err == nil && failed == 0:
			fmt.Println("written")
		case err == nil:
			fmt.Println("written after it was lost")
		case errors.Is(err, postgres.ErrLost):
			failed++
			fmt.Println("lost")
		default:
			failed++
			fmt.Println(err)
		}
	}
	os.Exit(0) // prints nothing else
}

func startWriter(t *testing.T, test, url string) (*exec.Cmd, <-chan string) {
	t.Helper()
	cmd := child(test, url)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 1<<20)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
		_, _ = io.Copy(io.Discard, out) // it ended, or was killed
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may be dead
		<-done
		_ = cmd.Wait() // killed
	})
	return cmd, lines
}

func expectLine(t *testing.T, lines <-chan string, want string) {
	t.Helper()
	select {
	case line, ok := <-lines:
		if !ok || !strings.HasPrefix(line, want) {
			t.Fatalf("got %q, want %q", line, want)
		}
	case <-time.After(time.Minute):
		t.Fatalf("no %q in time", want)
	}
}
