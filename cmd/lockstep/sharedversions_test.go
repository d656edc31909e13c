//go:build unix

package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSharedVersions: versions, patches and Change Dumps of a Source whose publisher is killed again and again are
// complete, and each process answers for them.
func TestSharedVersions(t *testing.T) {
	t.Parallel()
	rounds := 3
	if *sharedFaults > 1 {
		rounds = *sharedFaults
	}
	s := newSharedSource(t, asTheyAre, "contents: s3://www/contents\nsets:\n  - {from: dir:files, versions: keep, patches: true, change_dump: {every: 1ms}, change_list: {entries: 30}}\n")
	dir := filepath.Join(s.home, "files")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	written := map[string][]string{} // contents by name, in their order
	write := func(name string, round int) {
		t.Helper()
		var text strings.Builder
		for line := range 2000 {
			if line%500 == round%500 {
				line = -round
			}
			fmt.Fprintf(&text, "%s line %d\n", name, line)
		}
		written[name] = append(written[name], text.String())
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	listed := func(name string) {
		t.Helper()
		want := strings.Fields(digest(written[name][len(written[name])-1]))[1]
		waitFor(t, "the last content of "+name, func() bool {
			list, err := load(s.balancer.URL + "/resourcesync/main/resourcelist.xml")
			return err == nil && strings.Contains(string(list), want)
		})
	}
	for i := range 5 {
		write(fmt.Sprint(i, ".txt"), 0)
	}
	s.start()
	s.start()
	for round := 1; round <= rounds; round++ {
		for range 2 {
			write(fmt.Sprint(rand.IntN(5), ".txt"), 2*round)
			time.Sleep(time.Duration(rand.IntN(700)) * time.Millisecond)
		}
		publisher := s.publisher()
		publisher.kill()
		s.leave(publisher)
		write(fmt.Sprint(rand.IntN(5), ".txt"), 2*round+1)
		write("last.txt", round)
		listed("last.txt")
		s.start()
	}
	for name := range written {
		listed(name)
	}
	mementos := regexp.MustCompile(`<([^>]*)>; rel="[^"]*memento"`)
	for _, p := range s.running() {
		for name, texts := range written {
			answer, err := load(p.address + "timemap/" + s.balancer.URL + "/" + name)
			if err != nil {
				t.Fatal(err)
			}
			found := mementos.FindAllStringSubmatch(string(answer), -1)
			last := ""
			for _, m := range found {
				text, err := load(strings.Replace(m[1], s.balancer.URL+"/", p.address, 1))
				if last = string(text); err != nil || !slices.Contains(texts, last) {
					t.Errorf("%s has %d bytes that were not written, %v", m[1], len(text), err)
				}
			}
			if name == "last.txt" && len(found) != rounds || last != texts[len(texts)-1] {
				t.Errorf("%s has %d versions of %d, or another last one", name, len(found), len(texts))
			}
		}
		resp, err := http.Head(p.address + "timegate/" + s.balancer.URL + "/last.txt")
		if err != nil {
			t.Fatal(err)
		}
		if _ = resp.Body.Close(); resp.StatusCode != http.StatusOK {
			t.Errorf("the TimeGate answers %s", resp.Status)
		}
	}
	for what, want := range map[string]string{"changelist.xml": "rs/terms/patch", "changedump.xml": "<loc>"} {
		waitFor(t, want+" in "+what, func() bool {
			text, err := load(s.balancer.URL + "/resourcesync/main/" + what)
			return err == nil && strings.Contains(string(text), want)
		})
	}
	if out, err := exec.CommandContext(t.Context(), "lockstep", "validate", s.balancer.URL+"/").CombinedOutput(); err != nil {
		t.Errorf("validate: %v\n%s", err, out)
	}
	if t.Failed() {
		for _, p := range s.running() {
			t.Logf("%s\n%s", p.out, p.stderr)
		}
	}
}
