//go:build unix

package main

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"

	"lockstep/storage/postgres/postgrestest"
)

// TestSharedFailover: after a standby without the last transactions has become the database server, the
// Source states what the standby has and what was written since, and no document goes back in time,
// though the row of the lease was not lost. What was lost is no longer in it, even if as many changes
// were made since.
func TestSharedFailover(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	s := newSharedSourceIn(t, server.URL, asTheyAre, sharedSets)
	s.start()
	s.start()
	balancer := func() string { return s.balancer.URL + "/" }
	s.passing = errUncovered
	reader := crawlExcept(balancer(), s.passing)
	added := make([]int, *sharedTroubles) // after each failover
	for round := range added {
		uri := fmt.Sprintf("http://elsewhere.example/%d/", round)
		for _, name := range []string{"kept", "changed", "deleted"} {
			s.written(balancer, uri+name, "first")
			s.listed(uri+name, "first")
		}
		server.Standby(t)
		lost := func(name, text string) {
			s.written(balancer, uri+name, text)
			if text != "" && (round == 0 || rand.IntN(4) > 0) {
				s.listed(uri+name, text)
			}
		}
		lost("lost", "text")
		lost("changed", "second")
		lost("deleted", "")
		lost("last", "lost")
		server.Failover(t)
		added[round] = 4 // they have the numbers of those that were lost
		if round > 0 {
			added[round] = rand.IntN(9)
		}
		for i := range added[round] {
			s.written(balancer, fmt.Sprint(uri, "new", i), "text")
		}
		for i := range added[round] {
			s.listed(fmt.Sprint(uri, "new", i), "text")
		}
	}
	last := "http://elsewhere.example/last"
	s.written(balancer, last, "text")
	s.listed(last, "text")
	reader.end(t)
	c, err := crawlSource(balancer())
	if err != nil {
		t.Fatal(err)
	}
	for round, n := range added {
		uri := fmt.Sprintf("http://elsewhere.example/%d/", round)
		for i := range n {
			if name := fmt.Sprint(uri, "new", i); c.state[name] != digest("text") {
				t.Errorf("%s is listed with %q", name, c.state[name])
			}
		}
		for name, text := range map[string]string{"kept": "first", "changed": "first", "deleted": "first", "lost": "", "last": ""} {
			if want := digest(text); text != "" && c.state[uri+name] != want || text == "" && c.state[uri+name] != "" {
				t.Errorf("%d: %s is listed with %q", round, name, c.state[uri+name])
			}
		}
	}
	for _, p := range s.running() {
		t.Logf("%s", p.stderr)
	}
}

// TestSharedMirrorFailover: after a standby without the last transactions has become the database server, the
// mirror has and lacks more than its state says. The next run finds that: resources that were created before
// the failover are updated like any other, and files of no resource are reported.
func TestSharedMirrorFailover(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	w := newSharedWorld(t, 30)
	w.state = server.URL
	sync := func() string {
		t.Helper()
		p := w.start("sync", "-q")
		if w.end(p) != exitOK {
			t.Fatal(p.err.String())
		}
		return p.err.String()
	}
	w.src.files["/changed.txt"], w.src.files["/deleted.txt"] = []byte("first"), []byte("first")
	sync()
	w.check()
	server.Standby(t)
	for _, name := range []string{"/changed.txt", "/new.txt", "/updated.txt", "/restored.txt"} {
		w.src.files[name] = []byte("second")
	}
	delete(w.src.files, "/deleted.txt")
	sync()
	w.check()
	server.Failover(t)
	w.src.files["/changed.txt"], w.src.files["/deleted.txt"] = []byte("first"), []byte("first") // as the state says
	w.src.files["/updated.txt"] = []byte("third")
	delete(w.src.files, "/new.txt")
	if said := sync(); !strings.Contains(said, "1 in all, such as new.txt") {
		t.Errorf("a file of no resource is not reported: %s", said)
	}
	w.src.files["/new.txt"] = []byte("second") // it is not removed
	w.check()
	if said := sync(); strings.Contains(said, "new.txt") {
		t.Errorf("it is reported again: %s", said)
	}
}

// TestServeFailover: a process that alone uses its state ends, so that its service manager starts it again with
// what the standby has.
func TestServeFailover(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	cmd := exec.Command("lockstep", "serve", t.TempDir(), "--state", server.URL, "--listen", "127.0.0.1:0")
	cmd.Env = append(cmd.Environ(), "XDG_STATE_HOME="+t.TempDir())
	p, err := startReady(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	server.Standby(t)
	server.Failover(t)
	select {
	case err := <-p.done:
		p.done <- err
		code, err := exitCodeOf(err)
		said := p.stderr.String()
		if err != nil || code != exitFailed || !strings.Contains(said, "a standby has taken over") || !strings.Contains(said, "start it again") {
			t.Errorf("exit code %d, %v\n%s", code, err, said)
		}
	case <-time.After(endLimit):
		t.Fatalf("it does not end: %s", p.stderr)
	}
}
