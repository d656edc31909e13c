package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAMirrorBecomesAnAggregatorWithoutFetching has serve republish the mirror that sync
// has made, while its Source answers: no resource is asked for again, but the one that
// changes.
func TestAMirrorBecomesAnAggregatorWithoutFetching(t *testing.T) {
	t.Parallel()
	src := newLiveSource(t)
	for i := range 30 {
		src.put(fmt.Sprintf("d%d/%d.txt", i%3, i), 100)
	}
	dir := t.TempDir()
	mirror := filepath.Join(dir, "mirror")
	if out, err := exec.CommandContext(t.Context(), "lockstep", "sync", src.address(), mirror).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	before := src.requests()
	write(t, dir, "config.yaml", fmt.Sprintf("sets:\n- {from: 'resourcesync:%s', store: %s, poll: 50ms}\n", src.address(), mirror))
	p, err := startReady(exec.CommandContext(t.Context(), "lockstep", "serve", "--config", filepath.Join(dir, "config.yaml"), "--listen", "127.0.0.1:0", "--state", filepath.Join(dir, "state")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	waitForListed(t, p.address, "main", "/d2/29.txt</loc>")
	src.put("last.txt", 100)
	waitForListed(t, p.address, "main", "/last.txt</loc>")
	list, err := get(p.address + "resourcesync/main/resourcelist.xml")
	if n := strings.Count(list, `rel="via"`); err != nil || n != 31 {
		t.Errorf("%d resources with a via link, want 31: %v\n%s", n, err, list)
	}
	for path, n := range src.requests() {
		if n != before[path] && path != "last.txt" {
			t.Errorf("%s was asked for again", path)
		}
	}
}
