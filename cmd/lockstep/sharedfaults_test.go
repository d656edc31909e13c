//go:build unix

package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/storage/postgres/postgrestest"
)

// TestSharedHub: subscribers of the embedded hub, who may reach any process, get what is published by the next
// publisher, too.
func TestSharedHub(t *testing.T) {
	t.Parallel()
	s := newSharedSource(t, asTheyAre, "hub: embedded\nhub.allow_private: true\n"+sharedSets)
	publisher, standby := s.start(), s.start()
	const uri = "http://elsewhere.example/"
	got := &callbacks{}
	subscriber := httptest.NewServer(got)
	t.Cleanup(subscriber.Close)
	receives := func(what string) time.Duration {
		t.Helper()
		began := time.Now()
		for time.Since(began) < readyLimit {
			got.mu.Lock()
			log := got.log.String()
			got.mu.Unlock()
			if strings.Contains(log, what) {
				return time.Since(began)
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Errorf("the subscriber has not received %s:\n%s", what, got.log.String())
		for _, p := range s.running() {
			t.Logf("%s\n%s", p.out, p.stderr)
		}
		t.FailNow()
		return 0
	}
	form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {s.balancer.URL + "/resourcesync/main/changes"}, "hub.callback": {subscriber.URL + "/callback"}}
	for end := time.Now().Add(readyLimit); ; time.Sleep(50 * time.Millisecond) {
		resp, err := http.PostForm(standby.address+"hub", form)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusAccepted {
			break
		}
		if resp.StatusCode != http.StatusServiceUnavailable || time.Now().After(end) {
			t.Fatalf("the subscription is answered with %s: %s", resp.Status, text)
		}
	}
	receives("subscribe of /callback")
	s.written(func() string { return standby.address }, uri+"before", "before")
	receives(uri + "before")
	publisher.kill()
	s.leave(publisher)
	s.written(func() string { return standby.address }, uri+"after", "after")
	t.Logf("delivered %v after it was acknowledged", receives(uri+"after").Round(time.Millisecond))
}

// TestSharedDocuments: dumps, feed, archives and compressed variants of a Source whose publisher is killed again and
// again are valid, and a mirror has what it has.
func TestSharedDocuments(t *testing.T) {
	t.Parallel()
	s := newSharedSource(t, asTheyAre, "gzip: true\nsets:\n  - {from: dir:files, resource_dump: {every: 1s, keep: 2}, atom_pmh: true, archive: {change_lists: all, resource_lists: {keep: 3, every: 1s}}, change_list: {entries: 10}}\n")
	dir := filepath.Join(s.home, "files")
	change := func(round int) {
		t.Helper()
		for i := range 20 {
			name := filepath.Join(dir, fmt.Sprintf("%d.txt", (round*7+i)%40))
			if err := os.WriteFile(name, fmt.Appendf(nil, "round %d, %d", round, i), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	change(0)
	s.start()
	s.start()
	for round := range 3 {
		change(2*round + 1)
		time.Sleep(time.Duration(rand.IntN(1500)) * time.Millisecond)
		publisher := s.publisher()
		publisher.kill()
		s.leave(publisher)
		change(2*round + 2)
		text := fmt.Sprint("after kill ", round)
		if err := os.WriteFile(filepath.Join(dir, "last.txt"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(readyLimit); ; time.Sleep(50 * time.Millisecond) {
			list, err := load(s.balancer.URL + "/resourcesync/main/resourcelist.xml")
			if err == nil && strings.Contains(string(list), strings.Fields(digest(text))[1]) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("last.txt is not published: %v", err)
			}
		}
		s.start()
	}
	for _, name := range []string{"resourcedump.xml", "atom.xml", "changelist-archive.xml", "resourcelist-archive.xml", "resourcelist.xml.gz"} {
		waitFor(t, name, func() bool {
			_, err := load(s.balancer.URL + "/resourcesync/main/" + name)
			return err == nil
		})
	}
	if out, err := exec.CommandContext(t.Context(), "lockstep", "validate", s.balancer.URL+"/").CombinedOutput(); err != nil {
		t.Errorf("validate: %v\n%s", err, out)
	}
	mirror := filepath.Join(t.TempDir(), "mirror")
	if out, err := exec.CommandContext(t.Context(), "lockstep", "sync", s.balancer.URL+"/", mirror).CombinedOutput(); err != nil {
		t.Fatalf("sync: %v\n%s", err, out)
	}
	want, err := contents(dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := contents(mirror)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the mirror differs: (-want +got)\n%.2000s", diff)
	}
	for _, p := range s.running() {
		if strings.Contains(p.stderr.String(), "another process has changed") {
			t.Errorf("a process that was not late met a conflict\n%s", p.stderr)
		}
	}
}

// TestSharedTogether: of processes that are started at the same time with an empty database and bucket
// one publishes, and the others are its standbys.
func TestSharedTogether(t *testing.T) {
	t.Parallel()
	s := newSharedSource(t, asTheyAre, sharedSets)
	var starting sync.WaitGroup
	for range 4 {
		starting.Go(func() {
			if err := s.tryStart(); err != nil {
				t.Error(err)
			}
		})
	}
	starting.Wait()
	if t.Failed() {
		return
	}
	const uri = "http://elsewhere.example/"
	for i, p := range s.running() {
		s.written(func() string { return p.address }, uri+fmt.Sprint(i), "text")
		s.listed(uri+fmt.Sprint(i), "text")
	}
	publishing := 0
	for _, p := range s.running() {
		out, err := exec.CommandContext(t.Context(), "lockstep", "status", "--admin", "unix:"+p.admin).CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		if !strings.Contains(string(out), "standby; ") {
			publishing++
		}
	}
	if publishing != 1 {
		t.Errorf("%d processes publish", publishing)
	}
}

// A cut passes connections on to a database, until they are cut.
type cut struct {
	net.Listener
	target string // its socket

	mu    sync.Mutex // guards what follows
	apart bool
	conns []net.Conn
}

func newCut(t *testing.T, target string) *cut {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cut{Listener: l, target: target}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go c.pass(conn)
		}
	}()
	t.Cleanup(func() {
		c.set(true)
		_ = l.Close()
	})
	return c
}

// pass copies both ways. While it is apart, nothing passes, and neither end is notified.
func (c *cut) pass(client net.Conn) {
	c.mu.Lock()
	apart := c.apart
	c.conns = append(c.conns, client)
	c.mu.Unlock()
	if apart {
		return
	}
	server, err := net.Dial("unix", c.target)
	if err != nil {
		_ = client.Close()
		return
	}
	copied := func(to, from net.Conn) {
		buf := make([]byte, 32<<10)
		for {
			n, err := from.Read(buf)
			c.mu.Lock()
			apart := c.apart
			c.mu.Unlock()
			if apart { // the bytes are lost; the connection is not closed
				return
			}
			if n > 0 {
				if _, err := to.Write(buf[:n]); err != nil {
					break
				}
			}
			if err != nil {
				break
			}
		}
		_ = to.Close()
	}
	go copied(client, server)
	copied(server, client)
}

// set cuts all connections, or lets new ones pass again.
func (c *cut) set(apart bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.apart = apart
	if apart {
		return
	}
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
}

// TestSharedPartition: a publisher that is cut off from the database, but not from the bucket and its clients,
// continues to serve, publishes nothing more, and is a standby when it is connected again.
func TestSharedPartition(t *testing.T) {
	t.Parallel()
	database := postgrestest.URL(t)
	s := newSharedSourceIn(t, database, asTheyAre, sharedSets)
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	c := newCut(t, filepath.Join(q.Get("host"), ".s.PGSQL.5432"))
	apart := fmt.Sprintf("postgres://%s@%s/postgres?sslmode=disable&search_path=%s", q.Get("user"), c.Addr(), q.Get("search_path"))
	first := s.start("--state", apart)
	second := s.start()
	const uri = "http://elsewhere.example/"
	s.written(func() string { return second.address }, uri+"before", "before")
	s.listed(uri+"before", "before")
	if s.publisher() != first {
		t.Fatal("the first process does not publish")
	}
	reader := crawlAll(s.balancer.URL + "/")
	c.set(true)
	began := time.Now()
	s.written(func() string { return second.address }, uri+"apart", "apart")
	s.listed(uri+"apart", "apart")
	t.Logf("published after %v", time.Since(began).Round(time.Millisecond))
	if crawled, err := crawlSource(s.balancer.URL + "/"); err != nil || crawled.state[uri+"apart"] == "" {
		t.Errorf("%v", err)
	}
	waitFor(t, "what the other process has published, from the one that is cut off,", func() bool {
		text, err := load(first.address + "resourcesync/main/resourcelist.xml")
		return err == nil && strings.Contains(string(text), uri+"apart")
	})
	if err := s.write(first.address, uri+"refused", "key", "refused"); err == nil {
		t.Error("the process that is cut off acknowledges a write")
	}
	c.set(false)
	for i := range 3 {
		text := fmt.Sprint("together ", i)
		s.written(func() string { return first.address }, uri+"together", text)
		s.listed(uri+"together", text)
	}
	if code, err := second.end(syscall.SIGTERM); err != nil || code != exitOK {
		t.Fatalf("ended with %d, %v\n%s", code, err, second.stderr)
	}
	s.leave(second)
	s.written(func() string { return first.address }, uri+"again", "again")
	s.listed(uri+"again", "again")
	reader.end(t)
	if t.Failed() {
		t.Logf("%s", first.stderr)
	}
}
