//go:build unix

package main

import (
	"fmt"
	"testing"

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
	const uri = "http://elsewhere.example/"
	balancer := func() string { return s.balancer.URL + "/" }
	for _, name := range []string{"kept", "changed", "deleted"} {
		s.written(balancer, uri+name, "first")
		s.listed(uri+name, "first")
	}
	reader := crawlAll(balancer())
	server.Standby(t)
	lost := func(name, text string) {
		s.written(balancer, uri+name, text)
		if text != "" {
			s.listed(uri+name, text)
		}
	}
	lost("lost", "text")
	lost("changed", "second")
	lost("deleted", "")
	lost("last", "lost")
	server.Failover(t)
	for i := range 4 { // they have the numbers of those that were lost
		s.written(balancer, fmt.Sprint(uri, "new", i), "text")
	}
	for i := range 4 {
		s.listed(fmt.Sprint(uri, "new", i), "text")
	}
	reader.end(t)
	c, err := crawlSource(balancer())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"kept": "first", "changed": "first", "deleted": "first", "lost": "", "last": "", "new0": "text"} {
		if want := digest(text); text != "" && c.state[uri+name] != want || text == "" && c.state[uri+name] != "" {
			t.Errorf("%s is listed with %q", name, c.state[uri+name])
		}
	}
	for _, p := range s.running() {
		t.Logf("%s", p.stderr)
	}
}
