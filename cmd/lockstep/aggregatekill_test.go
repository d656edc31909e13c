package main

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// aggregateKills is what a release is tested with a larger number of.
var aggregateKills = flag.Int("aggregate-kills", 5, "how often TestKillAggregator kills an Aggregator")

// TestKillAggregator kills an Aggregator at random moments while its upstream changes.
// In the end it publishes what the upstream has, byte for byte, each resource with a via
// link that says where and what it is there (RS-REL-70, RS-REL-75), and it has asked for
// no resource again without need.
func TestKillAggregator(t *testing.T) {
	t.Parallel()
	src := newLiveSource(t)
	for i := range 60 {
		src.put(fmt.Sprintf("d%02d/%d.txt", i%7, i), rand.IntN(3000))
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yaml")
	text := fmt.Sprintf("sets:\n- from: \"resourcesync:%s\"\n  poll: 50ms\n  max_delete: 100\n", src.address())
	if err := os.WriteFile(config, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	listen := freeAddress(t)
	args := []string{"serve", "--config", config, "--listen", listen, "--state", filepath.Join(dir, "state")}
	for range *aggregateKills {
		cmd := exec.CommandContext(t.Context(), "lockstep", args...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(time.Duration(50+rand.IntN(500)) * time.Millisecond); time.Now().Before(end); {
			src.churn(3, 1, 1)
			time.Sleep(20 * time.Millisecond) // the upstream changes all the time
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}
	p, err := startReady(exec.CommandContext(t.Context(), "lockstep", args...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	dest := filepath.Join(dir, "copy")
	var diff string
	for deadline := time.Now().Add(readyLimit); time.Now().Before(deadline); {
		out, err := exec.CommandContext(t.Context(), "lockstep", "sync", "-q", "--max-delete", "100", p.address, dest).CombinedOutput()
		if diff = src.differ(readMirror(t, dest)); diff == "" && err == nil {
			break
		}
		diff += fmt.Sprintf(" (%v: %s)", err, out)
	}
	if diff != "" {
		t.Fatalf("%s\n%s%s", diff, p.out, p.stderr)
	}
	list, err := get(p.address + "resourcesync/main/resourcelist.xml")
	if err != nil {
		t.Fatal(err)
	}
	for path, body := range src.contents() {
		sum := sha256.Sum256([]byte(body))
		via := fmt.Sprintf(`<rs:ln rel="via" href="%s/%s" hash="sha-256:%s" length="%d"/>`, src.URL, path, hex.EncodeToString(sum[:]), len(body))
		if !strings.Contains(list, via) {
			t.Fatalf("%s: no %s in\n%s", path, via, list)
		}
	}
	before := src.requests()
	if code, err := p.end(os.Interrupt); code != exitInterrupted {
		t.Fatalf("exit code %d, %v", code, err)
	}
	again, err := startReady(exec.CommandContext(t.Context(), "lockstep", args...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(again.kill)
	src.put("last.txt", 100)
	waitFor(t, "the last change", func() bool {
		text, err := get(again.address + "resourcesync/main/resourcelist.xml")
		return err == nil && strings.Contains(text, "/last.txt</loc>")
	})
	for path, n := range src.requests() {
		if n != before[path] && path != "last.txt" {
			t.Errorf("%s was asked for again", path)
		}
	}
}

// aggregateHistories is what a release is tested with a larger number of.
var aggregateHistories = flag.Int("aggregate-histories", 1, "how many histories TestAggregatorsConverge runs")

// TestAggregatorsConverge kills the Aggregators of a diamond and a chain at random moments
// while the origin changes: origin → left and right → bottom, which republishes both →
// last. In the end a mirror of the last one has all of the origin twice, byte for byte, and
// all via links lead to the origin (RS-REL-71).
func TestAggregatorsConverge(t *testing.T) {
	t.Parallel()
	for range *aggregateHistories {
		convergeAggregators(t)
	}
}

// An aggregating is an Aggregator that is killed and started again at one address.
type aggregating struct {
	t       *testing.T
	args    []string
	address string
	running *process
}

func newAggregating(t *testing.T, dir, name, sets string) *aggregating {
	t.Helper()
	config := filepath.Join(dir, name+".yaml")
	if err := os.WriteFile(config, []byte("sets:\n"+sets), 0o666); err != nil {
		t.Fatal(err)
	}
	listen := freeAddress(t)
	a := &aggregating{t: t, address: "http://" + listen + "/", args: []string{"serve", "--config", config, "--listen", listen, "--state", filepath.Join(dir, name)}}
	a.start()
	return a
}

func (a *aggregating) start() {
	a.t.Helper()
	var err error
	if a.running, err = startReady(exec.CommandContext(a.t.Context(), "lockstep", a.args...)); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(a.running.kill)
}

func convergeAggregators(t *testing.T) {
	src := newLiveSource(t)
	for i := range 20 {
		src.put(fmt.Sprintf("d%02d/%d.txt", i%7, i), rand.IntN(3000))
	}
	dir := t.TempDir()
	set := func(name, address string) string {
		return fmt.Sprintf("- {name: %s, from: \"resourcesync:%s\", poll: 50ms, max_delete: 100}\n", name, address)
	}
	left := newAggregating(t, dir, "left", set("l", src.address()))
	right := newAggregating(t, dir, "right", set("r", src.address()))
	bottom := newAggregating(t, dir, "bottom", set("bl", left.address)+set("br", right.address))
	last := newAggregating(t, dir, "last", fmt.Sprintf("- name: all\n  max_delete: 100\n  poll: 50ms\n  upstreams: [{name: x, from: \"resourcesync:%s\"}]\n", bottom.address))
	all := []*aggregating{left, right, bottom, last}
	for range 6 {
		src.churn(3, 1, 1)
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond) // so that the kill comes at any moment
		victim := all[rand.IntN(len(all))]
		victim.running.kill()
		src.churn(1, 1, 1)
		victim.start()
	}
	dest := filepath.Join(dir, "copy")
	prefixes := []string{"all/x/bl/l/", "all/x/br/r/"}
	var diff string
	for deadline := time.Now().Add(readyLimit); time.Now().Before(deadline); {
		out, err := exec.CommandContext(t.Context(), "lockstep", "sync", "-q", "--max-delete", "100", last.address, dest).CombinedOutput()
		diff = ""
		files := readMirror(t, dest)
		for _, prefix := range prefixes {
			copied := map[string]string{}
			for path, text := range files {
				if rest, ok := strings.CutPrefix(filepath.ToSlash(path), prefix); ok {
					copied[rest] = text
				}
			}
			diff += src.differ(copied)
		}
		if diff == "" && err == nil {
			break
		}
		diff += fmt.Sprintf(" (%v: %s)", err, out)
	}
	if diff != "" {
		for _, a := range all {
			t.Logf("%s\n%s%s", a.address, a.running.out, a.running.stderr)
		}
		t.Fatal(diff)
	}
	list, err := get(last.address + "resourcesync/all/resourcelist.xml")
	if err != nil {
		t.Fatal(err)
	}
	for path, body := range src.contents() {
		sum := sha256.Sum256([]byte(body))
		via := fmt.Sprintf(`<rs:ln rel="via" href="%s/%s" hash="sha-256:%s" length="%d"/>`, src.URL, path, hex.EncodeToString(sum[:]), len(body))
		if n := strings.Count(list, via); n != 2 {
			t.Fatalf("%s: %d times %s in\n%s", path, n, via, list)
		}
	}
	if n, want := strings.Count(list, `rel="via"`), 2*len(src.contents()); n != want {
		t.Errorf("%d via links, want %d", n, want)
	}
}
