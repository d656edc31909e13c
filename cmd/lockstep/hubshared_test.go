package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockstep/cmd/lockstep/internal/hubserver"
	"lockstep/storage/postgres/postgrestest"
)

// A hubProcess is `lockstep hub` in a process of its own.
type hubProcess struct {
	t *testing.T
	*process
}

func startHub(t *testing.T, args ...string) *hubProcess {
	t.Helper()
	p, err := startReady(sharingCommand(t, append([]string{"hub", "--allow-private", "--publish-open"}, args...)...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return &hubProcess{t, p}
}

func (h *hubProcess) subscribe(topic, callback string) {
	h.t.Helper()
	resp, err := http.PostForm(h.address, url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.callback": {callback}, "hub.secret": {"secret"}})
	if err != nil {
		h.t.Fatal(err)
	}
	_ = resp.Body.Close() // read as far as needed
	if resp.StatusCode != http.StatusAccepted {
		h.t.Fatalf("subscribe: %s", resp.Status)
	}
}

// publish reports whether the hub accepted the message.
func (h *hubProcess) publish(topic, body string) error {
	r, err := http.NewRequest(http.MethodPost, h.address, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "text/plain")
	r.Header.Set("Link", "<"+topic+`>; rel="self"`)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	_ = resp.Body.Close() // read as far as needed
	if resp.StatusCode != http.StatusAccepted {
		return fmt.Errorf("publish: %s", resp.Status)
	}
	return nil
}

// stats asks how things stand.
func (h *hubProcess) stats() (s struct{ Subscriptions, Behind, Topics int }) {
	h.t.Helper()
	text, err := get(h.address + "-/api/v1/hub")
	if err == nil {
		err = json.Unmarshal([]byte(text), &s)
	}
	if err != nil {
		h.t.Fatalf("stats: %v\n%s", err, text)
	}
	return s
}

// logs returns how many messages the logs of all topics ever had, by topic.
func (h *hubProcess) logs() map[string]int {
	h.t.Helper()
	var all struct {
		Topics []struct {
			URL  string
			Last int
		}
	}
	text, err := get(h.address + "-/api/v1/hub/topics")
	if err == nil {
		err = json.Unmarshal([]byte(text), &all)
	}
	if err != nil {
		h.t.Fatalf("topics: %v\n%s", err, text)
	}
	logs := map[string]int{}
	for _, topic := range all.Topics {
		logs[topic.URL] = topic.Last
	}
	return logs
}

// TestHubShared has two hubs on one database: what one accepts the other
// delivers too, and when one is killed the other takes over what it had.
func TestHubShared(t *testing.T) {
	t.Parallel()
	database := postgrestest.URL(t)
	key := filepath.Join(t.TempDir(), "hub.key")
	if err := os.WriteFile(key, []byte(strings.Repeat("0f", hubserver.KeySize)), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--listen", "127.0.0.1:0", "--state", database, "--key-file", key}
	admin := t.TempDir()
	hubs := []*hubProcess{
		startHub(t, append(args, "--admin", "unix:"+filepath.Join(admin, "1.sock"), "--admin-token-file", key)...),
		startHub(t, append(args, "--admin", "unix:"+filepath.Join(admin, "2.sock"), "--admin-token-file", key)...),
	}
	const topic, subscribers = "https://data.example.org/news", 8
	sub := &callbacks{}
	server := httptest.NewServer(sub)
	t.Cleanup(server.Close)
	for i := range subscribers {
		hubs[i%2].subscribe(topic, fmt.Sprint(server.URL, "/", i))
	}
	within(t, "all subscribed", func() bool {
		return hubs[0].stats().Subscriptions+hubs[1].stats().Subscriptions == subscribers
	})
	var want []string
	publish := func(h *hubProcess) {
		body := fmt.Sprint("message-", len(want))
		if err := h.publish(topic, body); err != nil {
			t.Fatal(err)
		}
		want = append(want, body)
	}
	arrived := func() bool {
		for i := range subscribers {
			if !sub.got(fmt.Sprint("/", i), want) {
				return false
			}
		}
		return true
	}
	for i := range 40 {
		publish(hubs[i%2])
	}
	within(t, "all delivered by both", arrived)
	if n := hubs[0].stats().Topics; n != 1 {
		t.Errorf("%d topics, want 1", n)
	}
	if err := hubs[0].cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		publish(hubs[1])
	}
	within(t, "all delivered by one", arrived)
	if n := hubs[1].stats().Subscriptions; n != subscribers {
		t.Errorf("%d subscriptions, want %d", n, subscribers)
	}
}

// within waits until it is so.
func within(t *testing.T, what string, so func() bool) {
	t.Helper()
	deadline := time.Now().Add(readyLimit)
	for !so() {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// got reports whether a callback has taken all messages in this order, whatever
// else came, and how often.
func (c *callbacks) got(path string, want []string) bool { return c.lacks(path, want) == "" }

// lacks returns what is wrong otherwise.
func (c *callbacks) lacks(path string, want []string) string {
	next, at := 0, make(map[string]int, len(want))
	for i, body := range want {
		at[body] = i
	}
	for _, body := range c.bodies(path) {
		i, known := at[body]
		switch {
		case !known || i < next: // unanswered when it was accepted, or again
		case i > next:
			return fmt.Sprintf("%q came before %q, or without it", body, want[next])
		default:
			next++
		}
	}
	if next < len(want) {
		return fmt.Sprintf("%q did not come, nor did anything after it", want[next])
	}
	return ""
}

// note writes down that something has happened, between the deliveries to all
// callbacks.
func (c *callbacks) note(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(&c.log, "note: %s\n", what)
}

// bodies returns what was delivered to a callback, with the notes.
func (c *callbacks) bodies(path string) (all []string) {
	c.mu.Lock()
	log := c.log.String()
	c.mu.Unlock()
	for line := range strings.Lines(log) {
		if rest, ok := strings.CutPrefix(line, "delivery to "+path+": "); ok {
			body, _, _ := strings.Cut(rest, ",")
			all = append(all, body)
		}
		if what, ok := strings.CutPrefix(line, "note: "); ok {
			all = append(all, strings.TrimSpace(what))
		}
	}
	return all
}
