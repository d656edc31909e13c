package main

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lockstep/cmd/lockstep/internal/readers"
)

// TestSetBecomesPrivate: a set gets readers while strangers request its documents and
// resources, read its event stream and are subscribed to its topic: from then on they get
// nothing, whatever was kept to answer them. So it is when that happens between two runs, and
// when the set is removed from the configuration afterwards.
func TestSetBecomesPrivate(t *testing.T) {
	t.Parallel()
	room := t.TempDir()
	write(t, filepath.Join(room, "files"), "a.txt", "public")
	write(t, filepath.Join(room, "vault"), "secret.txt", "secret")
	token, line, err := readers.Make("alice")
	if err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	base := "http://" + address + "/"
	const text = "base_url: %[1]s\nstate: state\nhub.allow_private: true\nsets:\n- {name: main, from: dir:files, versions: keep}\n"
	public := fmt.Sprintf(text+"- {name: vault, from: dir:vault, uri: %[1]svault/}\n", base)
	private := fmt.Sprintf(text+"- {name: vault, from: dir:vault, uri: %[1]svault/, readers: '%[2]s'}\n", base, line)
	removed := fmt.Sprintf(text, base)
	config := filepath.Join(room, "config.yaml")
	serve := func(text string) *process {
		t.Helper()
		write(t, room, "config.yaml", text)
		p, err := startReady(exec.Command("lockstep", "serve", "--config", config, "--listen", address))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.kill)
		return p
	}
	reload := func(p *process, text string, times int) {
		t.Helper()
		write(t, room, "config.yaml", text)
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Skip("no such signal here")
		}
		within(t, "the readers have changed", func() bool { return strings.Count(p.stderr.String(), "note: with other readers: vault") == times })
	}
	calls := &callbacks{}
	subscriber := httptest.NewServer(calls)
	t.Cleanup(subscriber.Close)
	log := func() string {
		calls.mu.Lock()
		defer calls.mu.Unlock()
		return calls.log.String()
	}
	subscribe := func(set, path string, all int) {
		t.Helper()
		r, err := http.PostForm(base+"hub", url.Values{"hub.mode": {"subscribe"}, "hub.topic": {base + "resourcesync/" + set + "/changes"}, "hub.callback": {subscriber.URL + path}})
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		if r.StatusCode != http.StatusAccepted {
			t.Fatalf("subscribing to set %s: %s", set, r.Status)
		}
		within(t, "the subscription is confirmed", func() bool {
			text, err := get(base + "-/api/v1/hub/subscriptions")
			return err == nil && strings.Count(text, `"key"`) == all
		})
	}

	src := serve(public)
	subscribe("vault", "/first", 1)
	subscribe("main", "/other", 2)
	streamed := make(chan error, 1)
	stream := readStream(t, base+"resourcesync/vault/changes", streamed)
	watch := watchStrangers(t, base)
	within(t, "answers are kept", func() bool { return watch.since() > 3*time.Second }) // the front keeps them after two
	reload(src, private, 1)
	watch.switched()
	if err := <-streamed; err != nil {
		t.Error(err)
	}
	_ = stream.Close()
	within(t, "the subscription is denied", func() bool { return strings.Contains(log(), "denied of /first") })
	within(t, "the Source Description is there again", func() bool { return statusFor(t, base+".well-known/resourcesync", "") == 200 })
	for _, path := range []string{"vault/secret.txt", "vault/none", "resourcesync/vault/resourcelist.xml", "resourcesync/vault/changes"} {
		if s := statusFor(t, base+path, ""); s != 401 {
			t.Errorf("%s: %d for a stranger", path, s)
		}
	}
	if s := statusFor(t, base+"vault/secret.txt", token); s != 200 {
		t.Errorf("a reader gets %d", s)
	}
	write(t, filepath.Join(room, "vault"), "more.txt", "secret")
	within(t, "the hub has the change of the private set", func() bool {
		text, err := get(base + "-/api/v1/hub/messages?topic=" + url.QueryEscape(base+"resourcesync/vault/changes"))
		return err == nil && strings.Contains(text, `"seq":1`)
	})
	write(t, filepath.Join(room, "files"), "b.txt", "public")
	within(t, "a change of the other set is delivered", func() bool { return strings.Contains(log(), "delivery to /other") })
	watch.stop()
	if strings.Contains(log(), "delivery to /first") {
		t.Errorf("a change of the private set was delivered: %s", log())
	}

	// Public again, and private between two runs.
	reload(src, public, 2)
	within(t, "it is public", func() bool { return statusFor(t, base+"vault/secret.txt", "") == 200 })
	within(t, "it is named", func() bool {
		text, err := get(base + ".well-known/resourcesync")
		return err == nil && strings.Contains(text, "vault")
	})
	subscribe("vault", "/second", 2)
	if code, err := src.end(syscall.SIGTERM); err != nil || code != 0 {
		t.Fatalf("exit %d, %v", code, err)
	}
	src = serve(private)
	within(t, "the second subscription is denied", func() bool { return strings.Contains(log(), "denied of /second") })
	if text, err := get(base + ".well-known/resourcesync"); err != nil || strings.Contains(text, "vault") {
		t.Errorf("after the start: %v %s", err, text)
	}
	if code, err := src.end(syscall.SIGTERM); err != nil || code != 0 {
		t.Fatalf("exit %d, %v", code, err)
	}
	serve(removed)
	for _, path := range []string{"resourcesync/vault/capabilitylist.xml", "resourcesync/vault/resourcelist.xml", "vault/secret.txt"} {
		for _, credential := range []string{"", token} {
			if s := statusFor(t, base+path, credential); s != 404 {
				t.Errorf("%s of a removed set: %d", path, s)
			}
		}
	}
	if strings.Contains(log(), "delivery to /second") {
		t.Errorf("a change of the private set was delivered: %s", log())
	}
}

// statusFor returns the status of the answer to a request with a token, or without one.
func statusFor(t *testing.T, address, token string) int {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// readStream reads a stream of events, and sends to ended when it has ended.
func readStream(t *testing.T, address string, ended chan<- error) interface{ Close() error } {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("the stream: %v, %v", resp, err)
	}
	go func() {
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			if strings.Contains(s.Text(), "more.txt") {
				ended <- fmt.Errorf("a stranger is sent %s", s.Text())
				return
			}
		}
		ended <- nil
	}()
	return resp.Body
}

// Strangers request a resource and documents of a set again and again.
type strangers struct {
	began   time.Time
	private atomic.Bool // the set is
	done    chan struct{}
	all     sync.WaitGroup
}

// watchStrangers begins requests that must not be answered once the set is private.
func watchStrangers(t *testing.T, base string) *strangers {
	s := &strangers{began: time.Now(), done: make(chan struct{})}
	for _, path := range []string{"vault/secret.txt", "resourcesync/vault/resourcelist.xml", ".well-known/resourcesync", "robots.txt"} {
		s.all.Go(func() {
			for {
				select {
				case <-s.done:
					return
				case <-time.After(time.Millisecond): // leave the processor to others
				}
				was := s.private.Load()
				text, err := get(base + path)
				switch {
				case err != nil:
					t.Error(err)
					return
				case was && (strings.Contains(text, "secret") || strings.Contains(text, "/vault/")):
					t.Errorf("a stranger gets %s: %s", path, text)
					return
				}
			}
		})
	}
	t.Cleanup(s.stop)
	return s
}

func (s *strangers) since() time.Duration { return time.Since(s.began) }

// switched says that the set is private from now on.
func (s *strangers) switched() { s.private.Store(true) }

func (s *strangers) stop() {
	select {
	case <-s.done:
	default:
		close(s.done)
	}
	s.all.Wait()
}
