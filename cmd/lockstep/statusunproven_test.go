package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestStatusOfAWithdrawnSet: sync, status and follow agree that what a withdrawn set leaves behind is in
// step only as far as it can be known.
func TestStatusOfAWithdrawnSet(t *testing.T) {
	t.Parallel()
	s, address, dest := syncedSets(t)
	one := newSetsSource(t, "one")
	s.answer("/.well-known/resourcesync", func(w http.ResponseWriter, r *http.Request) {
		r.Host = strings.TrimPrefix(s.URL, "http://")
		one.Config.Handler.ServeHTTP(w, r)
	})
	for _, args := range [][]string{{"sync", address, dest}, {"sync", address, dest}} {
		if code, stdout, stderr := lockstepRun(t, args...); code != 0 || !strings.Contains(stdout, "as far as it can be known") {
			t.Errorf("sync: %d\n%s%s", code, stdout, stderr)
		}
		checkStatus(t, dest, 0, "^in step with .* ago, as far as it can be known; 0 pending$", "^  not known to be complete: set two: the Source has withdrawn it", "^one +in step ", "^two +unproven ")
	}
	cmd, out := start(t, t.TempDir(), "follow", address, dest, "--channel", "poll")
	await(t, out, "ready")
	checkStatus(t, dest, 0, "^in step with .* ago, as far as it can be known; 0 pending; following into ", "^  not known to be complete: set two: the Source has withdrawn it")
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was interrupted
	if !strings.Contains(out.String(), ", as far as it can be known:\n  not known to be complete: set two: the Source has withdrawn it") {
		t.Errorf("follow says\n%s", out)
	}
	checkStatus(t, dest, 0, "^in step with .* ago, as far as it can be known; 0 pending$", "^one +in step ", "^two +unproven ")
}

// TestStatusOfPendingDeletions: a notified deletion that the Source has not confirmed is counted once, and said.
func TestStatusOfPendingDeletions(t *testing.T) {
	t.Parallel()
	hub, err := startReady(exec.Command("lockstep", "hub", "--listen", "127.0.0.1:0", "--allow-private", "--publish-open", "--state", t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hub.kill)
	files, dest := t.TempDir(), filepath.Join(t.TempDir(), "mirror")
	if err := os.WriteFile(filepath.Join(files, "a.txt"), []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	source, err := startReady(exec.Command("lockstep", "serve", files, "--listen", "127.0.0.1:0", "--state", t.TempDir(), "--hub", hub.address))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(source.kill)
	_, out := start(t, t.TempDir(), "follow", source.address, dest, "--callback", "http://127.0.0.1:0/", "--poll", "1h", "--check", "1h")
	await(t, out, "notified by the hub")
	now := time.Now().UTC().Format(time.RFC3339Nano)
	r, err := http.NewRequest(http.MethodPost, hub.address, strings.NewReader(fmt.Sprintf(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`+
		`<rs:ln rel="up" href="%[1]sresourcesync/main/capabilitylist.xml"/><rs:md capability="changelist" from="%[2]s"/><url><loc>%[1]sa.txt</loc><rs:md change="deleted" datetime="%[2]s"/></url></urlset>`, source.address, now)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/xml")
	r.Header.Set("Link", "<"+source.address+`resourcesync/main/changes>; rel="self"`)
	if code, text := statusOf(http.DefaultClient.Do(r)); code/100 != 2 {
		t.Fatalf("the hub answers %d: %s", code, text)
	}
	within(t, "the deletion is pending", func() bool {
		_, stdout, _ := lockstepRun(t, "status", dest)
		// While it is being applied it is both waiting and recorded.
		return strings.Contains(stdout, "as far as it can be known; 1 pending")
	})
	checkStatus(t, dest, 0, "^in step with .*, as far as it can be known; 1 pending; following into ", "^  not known to be complete: set main: the Source has not confirmed deletions that it notified")
	_, stdout, _ := lockstepRun(t, "status", dest, "--json")
	var said struct {
		Upstreams []struct {
			Pending     int64    `json:"pending"`
			Unconfirmed int64    `json:"pending_deletions"`
			Unproven    []string `json:"unproven"`
		} `json:"upstreams"`
	}
	if err := json.Unmarshal([]byte(stdout), &said); err != nil || len(said.Upstreams) != 1 || said.Upstreams[0].Pending != 1 || said.Upstreams[0].Unconfirmed != 1 || len(said.Upstreams[0].Unproven) != 1 {
		t.Errorf("%v: %s", err, stdout)
	}
	if _, err := os.Stat(filepath.Join(dest, "a.txt")); err != nil {
		t.Error(err)
	}
}
