package main

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	waitForVia(t, src, p.address, []string{"main"}, 1, 1)
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

// TestAggregatorsConverge kills the Aggregators of random chains and diamonds of up to
// four levels at random moments, while the origin changes and fails now and then. In the
// end a mirror of the last one has all of the origin, byte for byte, once for each way to
// it, and the first via link of each resource leads to the origin (RS-REL-71). It has real
// processes; TestHistories of package aggregator has many more histories.
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

// A way leads from an Aggregator to the origin: the directory that holds its resources
// there, and how many Sources they have passed.
type way struct {
	dir  string
	hops int
}

func convergeAggregators(t *testing.T) {
	src := newLiveSource(t)
	for i := range 20 {
		src.put(fmt.Sprintf("d%02d/%d.txt", i%7, i), rand.IntN(3000))
	}
	dir := t.TempDir()
	via := []string{"origin", "chain"}[rand.IntN(2)]
	levels := 1 + rand.IntN(4)
	var all, from []*aggregating
	ways := map[*aggregating][]way{}
	for level := range levels {
		breadth := 1
		if level < levels-1 {
			breadth += rand.IntN(2)
		}
		var here []*aggregating
		for i := range breadth {
			var sets string
			var mine []way
			add := func(name, address string, theirs []way) {
				sets += fmt.Sprintf("- {name: %s, from: \"resourcesync:%s\", poll: 50ms, max_delete: 100, via: %s}\n", name, address, via)
				for _, w := range theirs {
					mine = append(mine, way{name + "/" + w.dir, w.hops + 1})
				}
			}
			if level == 0 {
				add("o", src.address(), []way{{}})
			}
			for j, a := range from {
				add(fmt.Sprint("f", j), a.address, ways[a])
			}
			a := newAggregating(t, dir, fmt.Sprintf("%d-%d", level, i), sets)
			ways[a] = mine
			here = append(here, a)
		}
		all = append(all, here...)
		from = here
	}
	last := from[0]
	src.before(func(w http.ResponseWriter, _ *http.Request, path string) bool {
		switch rand.IntN(20) {
		case 0:
			http.Error(w, "no", http.StatusInternalServerError)
		case 1:
			w.Header().Set("Content-Length", "100000")
			_, _ = w.Write([]byte(path)) // and the connection ends
		default:
			return true
		}
		return false
	})
	for range 6 {
		src.churn(3, 1, 1)
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond) // so that the kill comes at any moment
		victim := all[rand.IntN(len(all))]
		victim.running.kill()
		src.churn(1, 1, 1)
		victim.start()
	}
	src.before(nil)
	dest := filepath.Join(dir, "copy")
	var diff string
	for deadline := time.Now().Add(readyLimit); time.Now().Before(deadline); {
		out, err := exec.CommandContext(t.Context(), "lockstep", "sync", "-q", "--max-delete", "100", last.address, dest).CombinedOutput()
		diff = ""
		files := readMirror(t, dest)
		for _, w := range ways[last] {
			copied := map[string]string{}
			for path, text := range files {
				if rest, ok := strings.CutPrefix(filepath.ToSlash(path), w.dir); ok {
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
	last.checkVia(src, ways[last], via == "chain")
	for _, a := range all {
		a.running.kill()
	}
}

// checkVia checks the via links of all resources.
func (a *aggregating) checkVia(src *liveSource, ways []way, chain bool) {
	a.t.Helper()
	sets := map[string]bool{}
	hops := 0
	for _, w := range ways {
		set, _, _ := strings.Cut(w.dir, "/")
		sets[set] = true
		if chain {
			hops += w.hops
		} else {
			hops++
		}
	}
	waitForVia(a.t, src, a.address, slices.Sorted(maps.Keys(sets)), len(ways), hops)
}

// waitForVia waits until the Resource Lists of sets have each resource of src as often as stated, with its first
// via link to src, and so many via links of each in all. A list may be a second older than the changes.
func waitForVia(t *testing.T, src *liveSource, address string, sets []string, each, all int) {
	t.Helper()
	for deadline := time.Now().Add(readyLimit); ; time.Sleep(50 * time.Millisecond) {
		list, wrong := "", ""
		for _, set := range sets {
			text, err := get(address + "resourcesync/" + set + "/resourcelist.xml")
			if err != nil {
				t.Fatal(err)
			}
			list += text
		}
		contents := src.contents()
		for path, body := range contents {
			sum := sha256.Sum256([]byte(body))
			via := fmt.Sprintf(`/><rs:ln rel="via" href="%s/%s" hash="sha-256:%s" length="%d"/>`, src.URL, path, hex.EncodeToString(sum[:]), len(body))
			if n := strings.Count(list, via); n != each {
				wrong = fmt.Sprintf("%s: %d times %s, want %d", path, n, via, each)
			}
		}
		if n, want := strings.Count(list, `rel="via"`), all*len(contents); wrong == "" && n != want {
			wrong = fmt.Sprintf("%d via links, want %d", n, want)
		}
		switch {
		case wrong == "":
			return
		case time.Now().After(deadline):
			t.Fatalf("%s, in\n%s", wrong, list)
		}
	}
}
