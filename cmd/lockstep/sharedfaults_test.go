//go:build unix

package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

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
		t.Fatalf("the subscriber has not received %s:\n%s", what, got.log.String())
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

// pass copies both ways. While it is apart, nothing passes, and nobody is told.
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
	if text, err := load(first.address + "resourcesync/main/resourcelist.xml"); err != nil || !strings.Contains(string(text), uri+"apart") {
		t.Errorf("the process that is cut off serves %s, %v", text, err)
	}
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
