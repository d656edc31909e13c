package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestUpstreamsOfASetChangeAlone adds, changes and removes upstreams of a set by SIGHUP,
// also of one that keeps versions and has Change Dumps: the other upstreams are not read
// again, and the event stream of the set does not end. An upstream that cannot be opened
// changes nothing.
func TestUpstreamsOfASetChangeAlone(t *testing.T) {
	t.Parallel()
	for _, keys := range []string{"", "  versions: {keep: all}\n  change_dump: {}\n"} {
		t.Run(strings.TrimSpace(keys), func(t *testing.T) {
			t.Parallel()
			changeUpstreams(t, keys)
		})
	}
}

func changeUpstreams(t *testing.T, keys string) {
	room := t.TempDir()
	sources := map[string]*liveSource{}
	upstream := func(name, more string) string {
		if sources[name] == nil {
			sources[name] = newLiveSource(t)
			sources[name].put(name+".txt", 10)
		}
		return fmt.Sprintf("  - {name: %s, from: 'resourcesync:%s', poll: 1h%s}\n", name, sources[name].address(), more)
	}
	config := func(upstreams ...string) string {
		return "sets:\n- name: all\n" + keys + "  upstreams:\n" + strings.Join(upstreams, "")
	}
	file := filepath.Join(room, "config.yaml")
	write(t, room, "config.yaml", config(upstream("one", ""), upstream("two", "")))
	hub, err := startReady(exec.Command("lockstep", "serve", "--listen", "127.0.0.1:0", "--config", file, "--state", filepath.Join(room, "state")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hub.kill)
	listed := func(text string) {
		t.Helper()
		waitForListed(t, hub.address, "all", text)
	}
	listed("all/one/one.txt")
	listed("all/two/two.txt")
	requests := func() (n int) {
		for _, k := range sources["one"].requests() {
			n += k
		}
		return n
	}
	before := requests()

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, hub.address+"resourcesync/all/changes", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	var stream *http.Response
	waitFor(t, "an event stream", func() bool {
		if stream, err = http.DefaultClient.Do(req); err != nil {
			return false
		}
		if stream.StatusCode != http.StatusOK {
			_ = stream.Body.Close() // there is nothing to be followed yet
		}
		return stream.StatusCode == http.StatusOK
	})
	defer func() { _ = stream.Body.Close() }() // it is read to its end, or not of interest any more
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for b := make([]byte, 4096); ; {
			if _, err := stream.Body.Read(b); err != nil {
				return
			}
		}
	}()

	reload := func(text, note string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := hub.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		waitFor(t, note+" in "+hub.stderr.String(), func() bool { return strings.Contains(hub.stderr.String(), note) })
	}
	reload(config(upstream("one", ""), upstream("two", ""), upstream("three", "")), "note: set all: upstreams added: three\n")
	listed("all/three/three.txt")
	reload(config(upstream("one", ""), upstream("two", ", collection: 'http://c.example/'"), upstream("three", "")), "note: set all: upstreams restarted with other settings: two\n")
	listed("http://c.example/")
	reload(config(upstream("one", ""), upstream("two", ", collection: 'http://c.example/'")), "note: set all: upstreams removed: three\n")
	waitFor(t, "the deletion", func() bool {
		text, err := get(hub.address + "resourcesync/all/changelist.xml")
		return err == nil && strings.Contains(text, `change="deleted"`)
	})
	if _, err := os.Stat(filepath.Join(room, "state", "upstreams", "all", "three", "three.txt")); err != nil {
		t.Errorf("the mirror that was removed: %v", err)
	}

	store := fmt.Sprintf(", store: '%s/two.txt'", filepath.Join(room, "no", "directory"))
	write(t, room, "no/directory", "a file")
	reload(config(upstream("one", ""), upstream("two", ", collection: 'http://c.example/'"), upstream("four", store)), "warning: the configuration stays as it was: set all: ")
	reload(config(upstream("one", ""), upstream("two", store)), "warning: set all: upstream two keeps the settings that it had: ")
	for _, path := range []string{"all/one/one.txt", "all/two/two.txt"} {
		if _, err := get(hub.address + path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	select {
	case <-ended:
		t.Error("the event stream has ended")
	default:
	}
	if n := requests(); n != before {
		t.Errorf("%d requests to an upstream that has not changed", n-before)
	}
}
