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

// TestHubKill kills a hub again and again while it takes messages and delivers
// them. What it answered 202 arrives at every subscriber, in order, though
// perhaps more than once (WS-C-12); subscriptions stay.
func TestHubKill(t *testing.T) {
	t.Parallel()
	const topics, subscribers = 3, 4
	state := filepath.Join(t.TempDir(), "state")
	sub := &callbacks{}
	server := httptest.NewServer(sub)
	t.Cleanup(server.Close)
	topic := func(i int) string { return fmt.Sprint("https://data.example.org/", i) }
	start := func() *hubProcess {
		return startHub(t, "--listen", "127.0.0.1:0", "--state", state, "--retry-first", "50ms")
	}
	hub := start()
	for i := range topics {
		for j := range subscribers {
			hub.subscribe(topic(i), fmt.Sprint(server.URL, "/", i, "/", j))
		}
	}
	within(t, "all subscribed", func() bool { return hub.stats().Subscriptions == topics*subscribers })
	accepted := make([][]string, topics) // by topic
	for kill := range *hubKills {
		var publishers sync.WaitGroup
		for i := range topics {
			publishers.Go(func() {
				for n := 0; ; n++ { // until the hub is gone
					body := fmt.Sprintf("%d-%d-%d", i, kill, n)
					if hub.publish(topic(i), body) != nil {
						return
					}
					accepted[i] = append(accepted[i], body)
				}
			})
		}
		time.Sleep(time.Duration(20+rand.IntN(150)) * time.Millisecond)
		if err := hub.cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		publishers.Wait()
		hub.kill()
		hub = start()
		if n := hub.stats().Subscriptions; n != topics*subscribers {
			t.Fatalf("%d subscriptions after a kill, want %d", n, topics*subscribers)
		}
	}
	within(t, "everything delivered", func() bool { return hub.stats().Behind == 0 })
	all := 0
	for i := range topics {
		all += len(accepted[i])
		for j := range subscribers {
			if path := fmt.Sprint("/", i, "/", j); !sub.got(path, accepted[i]) {
				t.Errorf("%s did not get all that was accepted, in order", path)
			}
		}
	}
	t.Logf("%d kills, %d messages accepted, each delivered to %d", *hubKills, all, subscribers)
}
