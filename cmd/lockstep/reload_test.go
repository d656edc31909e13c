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
	"time"
)

// TestReloadsDoNotInterruptOtherSets adds, changes and removes a set by SIGHUP again and
// again, while a client requests the documents and resources of another one: all its
// requests are answered.
func TestReloadsDoNotInterruptOtherSets(t *testing.T) {
	t.Parallel()
	room := t.TempDir()
	serve := func(args ...string) *process {
		p, err := startReady(exec.Command("lockstep", append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.kill)
		return p
	}
	write(t, filepath.Join(room, "files"), "a.txt", "a")
	origin := serve(filepath.Join(room, "files"), "--state", filepath.Join(room, "origin"))
	const set = "- {name: %s, from: 'resourcesync:%s', poll: %s}\n"
	one := "sets:\n" + fmt.Sprintf(set, "one", origin.address, "1m")
	config := filepath.Join(room, "config.yaml")
	write(t, room, "config.yaml", one)
	hub := serve("--config", config, "--state", filepath.Join(room, "state"))

	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		stopped <- func() error {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return nil
				default:
				}
				for _, path := range []string{"one/a.txt", "resourcesync/one/resourcelist.xml", ".well-known/resourcesync"} {
					resp, err := http.Get(hub.address + path)
					if err != nil {
						return err
					}
					_ = resp.Body.Close()
					if resp.StatusCode != http.StatusOK {
						return fmt.Errorf("%s: %s", path, resp.Status)
					}
				}
				time.Sleep(time.Millisecond) // leave the processor to others
			}
		}()
	}()
	reload := func(text, note string) {
		t.Helper()
		before := strings.Count(hub.stderr.String(), note)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := hub.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(readyLimit); strings.Count(hub.stderr.String(), note) == before; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%q never came:\n%s", note, hub.stderr)
			}
		}
	}
	for range 3 {
		reload(one+fmt.Sprintf(set, "two", origin.address, "1m"), "note: added: two")
		reload(one+fmt.Sprintf(set, "two", origin.address, "2m"), "note: restarted with other settings: two")
		reload(one, "note: set two is no longer published")
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Errorf("a request was not answered: %v\n%s", err, hub.stderr)
	}
	if strings.Contains(hub.stderr.String(), "warning") {
		t.Errorf("warnings:\n%s", hub.stderr)
	}
}
