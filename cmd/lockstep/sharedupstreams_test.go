//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// aggregatorSets returns the sets of an Aggregator whose mirrors are in buckets: copies of two Sources,
// and the descriptions of one.
func aggregatorSets(one, two *liveSource) string {
	return fmt.Sprintf(`sets:
- name: copies
  poll: 50ms
  max_delete: 100
  upstreams:
  - {name: one, from: "resourcesync:%[1]s", store: s3://www/one}
  - {name: two, from: "resourcesync:%[2]s", store: s3://www/two}
- name: descriptions
  from: "resourcesync:%[1]s"
  copy: false
  poll: 50ms
  max_delete: 100
`, one.address(), two.address())
}

// serves waits until the Source at base republishes what two upstreams have, with the addresses that
// resources get below public.
func serves(t *testing.T, base, public string, one, two *liveSource) {
	t.Helper()
	var wrong string
	wanted := func() bool {
		want := map[string]string{}
		for path, text := range one.contents() {
			want[public+"copies/one/"+path] = text
			want[one.URL+"/"+path] = text
		}
		for path, text := range two.contents() {
			want[public+"copies/two/"+path] = text
		}
		state := map[string]string{}
		for _, set := range []string{"copies", "descriptions"} {
			list, err := load(base + "resourcesync/" + set + "/resourcelist.xml")
			if err != nil {
				wrong = err.Error()
				return false
			}
			for _, entry := range strings.Split(string(list), "<url>")[1:] {
				loc, rest, _ := strings.Cut(strings.TrimPrefix(entry, "<loc>"), "</loc>")
				_, rest, _ = strings.Cut(rest, `<rs:md hash="`)
				state[loc], _, _ = strings.Cut(rest, `"`)
			}
		}
		if len(state) != len(want) {
			wrong = fmt.Sprintf("%d resources are listed, want %d", len(state), len(want))
			return false
		}
		for uri, text := range want {
			if hashes := strings.Fields(digest(text))[1]; !strings.Contains(state[uri], hashes) {
				wrong = fmt.Sprintf("%s is listed with %q, want %s", uri, state[uri], hashes)
				return false
			}
			if path, ours := strings.CutPrefix(uri, public); ours {
				if served, err := load(base + path); err != nil || string(served) != text {
					wrong = fmt.Sprintf("%s is served with %d bytes, %v", uri, len(served), err)
					return false
				}
			}
		}
		return true
	}
	for end := time.Now().Add(readyLimit); !wanted(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(wrong)
		}
	}
}

// twoSources returns Sources of 30 resources each.
func twoSources(t *testing.T) (one, two *liveSource) {
	t.Helper()
	one, two = newLiveSource(t), newLiveSource(t)
	for i := range 30 {
		one.put(fmt.Sprintf("d%d/%d.txt", i%3, i), 500)
		two.put(fmt.Sprintf("d%d/%d.txt", i%3, i), 500)
	}
	return one, two
}

// fetchedAgain names what was requested of a Source since before that is not among changed.
func fetchedAgain(s *liveSource, before map[string]int, changed ...string) (again []string) {
	for path, n := range s.requests() {
		if n != before[path] && !slices.Contains(changed, path) {
			again = append(again, path)
		}
	}
	return again
}

// TestAggregatorInDatabase: an Aggregator whose state is in PostgreSQL, and whose mirrors are in a
// bucket, is killed, and continues in a process that has nothing else of it: no resource is fetched
// again that has not changed.
func TestAggregatorInDatabase(t *testing.T) {
	t.Parallel()
	one, two := twoSources(t)
	s := newSharedSource(t, asTheyAre, "")
	listen := freeAddress(t)
	public := "http://" + listen + "/"
	text := fmt.Sprintf("state: %q\ndocuments: s3://www/source\nlisten: %s\n", s.database, listen) + aggregatorSets(one, two)
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var before map[string]int
	for round := range 3 {
		s.home = t.TempDir() // another machine
		p := s.start()
		serves(t, p.address, public, one, two)
		if again := fetchedAgain(one, before, "d1/1.txt", fmt.Sprintf("new/%d.txt", round-1)); round > 0 && len(again) > 0 {
			t.Errorf("round %d: fetched again: %q", round, again)
		}
		before = one.requests()
		one.put("d1/1.txt", 600)
		one.put(fmt.Sprintf("new/%d.txt", round), 100)
		one.remove(fmt.Sprintf("d0/%d.txt", 3*round))
		two.churn(3, 1, 2)
		if round == 0 { // the changes of the other rounds are found by the next process
			serves(t, p.address, public, one, two)
		}
		p.kill()
		s.leave(p)
	}
	if out, err := exec.CommandContext(t.Context(), "lockstep", "state", "check", s.database).CombinedOutput(); err != nil {
		t.Errorf("state check: %v\n%s", err, out)
	}
}

// TestSharedAggregator: several processes are one Aggregator. Whichever is killed or paused, another one
// continues to follow the upstreams from where it was, and all processes serve the copies.
func TestSharedAggregator(t *testing.T) {
	t.Parallel()
	one, two := twoSources(t)
	s := newSharedSource(t, asTheyAre, aggregatorSets(one, two))
	for range 2 {
		s.start()
	}
	public := s.balancer.URL + "/"
	everywhere := func() {
		t.Helper()
		serves(t, public, public, one, two)
		for _, p := range s.running() {
			serves(t, p.address, public, one, two)
		}
	}
	everywhere()
	for range *sharedFaults {
		for _, f := range []sharedFault{{name: "kill"}, {name: "pause"}} {
			before := one.requests()
			publisher := s.publisher()
			two.churn(5, 2, 2)
			end := f.strike(s, publisher)
			one.put("d1/1.txt", 600)
			two.churn(5, 2, 2)
			serves(t, public, public, one, two)
			if again := fetchedAgain(one, before, "d1/1.txt"); len(again) > 0 {
				t.Errorf("%s: fetched again: %q", f.name, again)
			}
			end()
			one.churn(2, 1, 1)
			two.churn(2, 1, 1)
			everywhere()
		}
	}
	if t.Failed() {
		for _, p := range s.running() {
			t.Logf("%s\n%s", p.out, p.stderr)
		}
	}
}

// TestSharedAggregatorHub: a hub of an upstream notifies whichever process it reaches, also after the one
// that subscribed is gone.
func TestSharedAggregatorHub(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("first.txt")
	origin, err := startReady(exec.Command("lockstep", "serve", dir, "--listen", "127.0.0.1:0", "--hub-allow-private", "--state", filepath.Join(t.TempDir(), "state")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(origin.kill)
	s := newSharedSource(t, asTheyAre, fmt.Sprintf("sets:\n- from: \"resourcesync:%s\"\n  store: s3://www/mirror\n  poll: 1h\n", origin.address))
	for range 2 {
		s.start()
	}
	served := func(name string) {
		t.Helper()
		waitFor(t, name, func() bool {
			list, err := load(s.balancer.URL + "/resourcesync/main/resourcelist.xml")
			return err == nil && strings.Contains(string(list), "/"+name+"</loc>")
		})
	}
	served("first.txt")
	subscribed := func() bool {
		out, err := exec.CommandContext(t.Context(), "lockstep", "status", "--json", "--admin", "unix:"+s.publisher().admin).CombinedOutput()
		return err == nil && strings.Contains(string(out), `"channel":"hub"`)
	}
	for round := range 2 {
		waitFor(t, "a subscription", subscribed)
		for i := range 4 { // the balancer chooses a process at random
			name := fmt.Sprintf("%d-%d.txt", round, i)
			write(name)
			served(name)
		}
		if round == 0 {
			publisher := s.publisher()
			publisher.kill()
			s.leave(publisher)
			s.start()
		}
	}
}

// TestSharedAggregatorRefusals: what would be lost with a machine, or what only one process has, is refused,
// with the remedy.
func TestSharedAggregatorRefusals(t *testing.T) {
	t.Parallel()
	src := newLiveSource(t)
	set := fmt.Sprintf("sets:\n- from: \"resourcesync:%s\"\n", src.address())
	s := newSharedSource(t, asTheyAre, set)
	if err := s.tryStart(); err == nil || !strings.Contains(err.Error(), "may be lost") || !strings.Contains(err.Error(), "store: s3://") {
		t.Errorf("without a store: %v", err)
	}
	s = newSharedSource(t, asTheyAre, set+"  store: "+filepath.Join(t.TempDir(), "mirror")+"\n")
	if err := s.tryStart(); err == nil || !strings.Contains(err.Error(), "must be in a bucket") {
		t.Errorf("with a store in a directory: %v", err)
	}
	s = newSharedSource(t, asTheyAre, set+"  store: s3://www/here\n")
	p := s.start()
	p.kill()
	s.leave(p)
	mirror := func(database string, more ...string) (int, string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "lockstep", append([]string{"sync", src.address(), "s3://www/mirror", "--state", database}, more...)...)
		cmd.Env = append(cmd.Environ(), "XDG_STATE_HOME="+t.TempDir())
		for name, value := range bucketEnv(s.endpoint) {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		out, _ := cmd.CombinedOutput()
		return cmd.ProcessState.ExitCode(), string(out)
	}
	for _, more := range [][]string{nil, {"--shared"}} {
		if code, out := mirror(s.database, more...); code != exitUsage || !strings.Contains(out, "it is the state of a Source") {
			t.Errorf("sync %v into the database of an Aggregator: exit code %d\n%s", more, code, out)
		}
	}
	text, err := os.ReadFile(s.config)
	if err == nil {
		err = os.WriteFile(s.config, []byte(strings.Replace(string(text), "s3://www/here", "s3://www/there", 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.tryStart(); err == nil || !strings.Contains(err.Error(), "is in s3://www/here") {
		t.Errorf("with another store: %v", err)
	}
	s = newSharedSource(t, asTheyAre, set+"  store: s3://www/here\n")
	if code, out := mirror(s.database); code != exitOK {
		t.Fatalf("sync: exit code %d\n%s", code, out)
	}
	if err := s.tryStart(); err == nil || !strings.Contains(err.Error(), "state of the mirror in s3://www/mirror") {
		t.Errorf("with the database of a mirror: %v", err)
	}
}
