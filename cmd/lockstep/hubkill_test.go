package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

var hubKills = flag.Int("hub-kills", 10, "how often TestHubKill kills the hub")

// TestHubKill kills a hub again and again while it accepts messages and delivers
// them.
func TestHubKill(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "state")
	testHubEnds(t, *hubKills, func() string { return state }, func(hub *hubProcess) {
		if err := hub.cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	})
}

// testHubEnds ends a hub n times while it accepts messages and delivers them, and
// starts it again with the state in the directory that state returns. What the hub
// answered 202 must be in its log then and arrive at every subscriber, in order,
// though perhaps more than once (WS-C-12), and subscriptions must stay.
func testHubEnds(t *testing.T, n int, state func() string, end func(*hubProcess)) {
	t.Helper()
	const topics, subscribers = 3, 4
	sub := &callbacks{}
	server := httptest.NewServer(sub)
	t.Cleanup(server.Close)
	topic := func(i int) string { return fmt.Sprint("https://data.example.org/", i) }
	var hubs []*hubProcess
	start := func() *hubProcess {
		hubs = append(hubs, startHub(t, "--listen", "127.0.0.1:0", "--state", state(), "--retry-first", "50ms"))
		return hubs[len(hubs)-1]
	}
	hub := start()
	for i := range topics {
		for j := range subscribers {
			hub.subscribe(topic(i), fmt.Sprint(server.URL, "/", i, "/", j))
		}
	}
	within(t, "all subscribed", func() bool { return hub.stats().Subscriptions == topics*subscribers })
	accepted := make([][]string, topics) // by topic
	for round := range n {
		unanswered := hub.logs() // of the ends before, they are in the log all the same
		for i := range topics {
			unanswered[topic(i)] -= len(accepted[i])
		}
		var publishers sync.WaitGroup
		for i := range topics {
			publishers.Go(func() {
				for k := 0; ; k++ { // until the hub is gone
					body := fmt.Sprintf("%d-%d-%d", i, round, k)
					if hub.publish(topic(i), body) != nil {
						return
					}
					accepted[i] = append(accepted[i], body)
				}
			})
		}
		time.Sleep(time.Duration(20+rand.IntN(150)) * time.Millisecond)
		end(hub)
		publishers.Wait()
		hub.kill()
		sub.note(fmt.Sprintf("end %d", round))
		hub = start()
		if n := hub.stats().Subscriptions; n != topics*subscribers {
			t.Fatalf("%d subscriptions afterwards, want %d", n, topics*subscribers)
		}
		for i, left := 0, hub.logs(); i < topics; i++ {
			if n, want := left[topic(i)], unanswered[topic(i)]+len(accepted[i]); n < want {
				t.Errorf("end %d: the log of topic %d has %d messages, want %d: it lost some of %q", round, i, n, want, accepted[i])
			}
		}
	}
	within(t, "everything delivered", func() bool { return hub.stats().Behind == 0 })
	all := 0
	for i := range topics {
		all += len(accepted[i])
		for j := range subscribers {
			path := fmt.Sprint("/", i, "/", j)
			if wrong := sub.lacks(path, accepted[i]); wrong != "" {
				t.Errorf("%s: %s; accepted and received:\n%q\n%q", path, wrong, accepted[i], sub.bodies(path))
			}
		}
	}
	t.Logf("ended %d times, %d messages accepted, each delivered to %d", n, all, subscribers)
	if t.Failed() {
		text, err := get(hub.address + "-/api/v1/hub/subscriptions")
		t.Logf("subscriptions: %v\n%s", err, text)
		for _, h := range hubs {
			t.Logf("output of a hub:\n%s%s", h.out, h.stderr)
		}
	}
}
