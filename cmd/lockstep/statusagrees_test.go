package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/internal/lastrun"
	"lockstep/internal/mirrordir"
	"lockstep/storage/postgres/postgrestest"
)

// checkStatus checks the exit code of lockstep status, and what it prints.
func checkStatus(t *testing.T, dest string, code int, patterns ...string) {
	t.Helper()
	got, stdout, stderr := lockstepRun(t, "status", dest)
	if got != code {
		t.Errorf("status ends with exit code %d, want %d\n%s%s", got, code, stdout, stderr)
	}
	for _, p := range patterns {
		if !regexp.MustCompile("(?m)" + p).MatchString(stdout) {
			t.Errorf("status prints nothing like %q:\n%s", p, stdout)
		}
	}
}

// syncedSets returns a Source with the sets one and two, and a mirror that is in step with it.
func syncedSets(t *testing.T) (s *setsSource, address, dest string) {
	t.Helper()
	s, dest = newSetsSource(t, "one", "two"), filepath.Join(t.TempDir(), "mirror")
	address = s.URL + "/.well-known/resourcesync"
	if code, stdout, stderr := lockstepRun(t, "sync", address, dest); code != 0 {
		t.Fatalf("sync: %d\n%s%s", code, stdout, stderr)
	}
	checkStatus(t, dest, 0, "^in step with ", "^one +in step ", "^two +in step ")
	return s, address, dest
}

// TestStatusNamesTheSetThatFailed: a mirror with a set that could not be brought into step is
// not in step, and the set is named; the others are.
func TestStatusNamesTheSetThatFailed(t *testing.T) {
	t.Parallel()
	s, address, dest := syncedSets(t)
	s.answer("/two/capabilitylist.xml", unavailable)
	if code, _, _ := lockstepRun(t, "sync", address, dest, "--retries", "0"); code != exitFailed {
		t.Errorf("sync with a set that cannot be read: exit code %d", code)
	}
	checkStatus(t, dest, exitFailed, "^not in step with ", "^one +in step ", "^two +failing .*two/capabilitylist.xml")
	s.answer("/.well-known/resourcesync", unavailable)
	if code, _, _ := lockstepRun(t, "sync", address, dest, "--retries", "0"); code != exitFailed {
		t.Errorf("sync with a Source that cannot be read: exit code %d", code)
	}
	checkStatus(t, dest, exitFailed, "^not in step with ", "^one +failing ", "^two +failing ")
	s.answer("/two/capabilitylist.xml", nil)
	s.answer("/.well-known/resourcesync", nil)
	if code, stdout, stderr := lockstepRun(t, "sync", address, dest); code != 0 {
		t.Errorf("sync: %d\n%s%s", code, stdout, stderr)
	}
	checkStatus(t, dest, 0, "^in step with ", "^one +in step ", "^two +in step ")
}

// TestStatusAfterFollow: the state of a mirror is that of the last run, also if follow ended
// before it had looked at each set.
func TestStatusAfterFollow(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args []string
		text string
	}{
		"another Source": {nil, "another Source than the one mirrored here"},
		"no such set":    {[]string{"--set", "three"}, "three"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, address, dest := syncedSets(t)
			if name == "another Source" {
				address = newSetsSource(t, "other").URL + "/.well-known/resourcesync"
			}
			args := append([]string{"follow", address, dest, "--channel", "poll", "--retries", "0"}, tt.args...)
			if code, stdout, stderr := lockstepRun(t, args...); code == 0 {
				t.Errorf("follow ends with exit code 0\n%s%s", stdout, stderr)
			}
			checkStatus(t, dest, exitFailed, "^not in step with ", tt.text, "^one +failing ", "^two +failing ")
		})
	}
}

// TestStatusAfterAnInterruptedFollow: sets that follow was interrupted in are not known to be in step.
func TestStatusAfterAnInterruptedFollow(t *testing.T) {
	t.Parallel()
	s, address, dest := syncedSets(t)
	s.answer("/two/resourcelist.xml", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	cmd, out := start(t, t.TempDir(), "follow", address, dest, "--channel", "poll", "--baseline")
	within(t, "the list of the second set is requested again", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.hits["/two/resourcelist.xml"] > 1
	})
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Errorf("an interrupted follow ends with exit code 0\n%s", out)
	}
	checkStatus(t, dest, exitFailed, "^not in step with .*the last run was interrupted", "^two +failing ")
}

// TestStatusAfterAKilledRead: a run that was killed before it wrote anything was killed all the same.
func TestStatusAfterAKilledRead(t *testing.T) {
	t.Parallel()
	s, address, dest := syncedSets(t)
	reached := make(chan struct{})
	var once sync.Once
	s.answer("/.well-known/resourcesync", func(_ http.ResponseWriter, r *http.Request) {
		once.Do(func() { close(reached) })
		<-r.Context().Done()
	})
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second))) // a lock says only in which second it was acquired
	cmd := exec.Command("lockstep", "sync", address, dest)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-reached
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	checkStatus(t, dest, exitFailed, "^not in step with .*the last run was killed$", "^one +failing ")
	s.answer("/.well-known/resourcesync", nil)
	if code, stdout, stderr := lockstepRun(t, "sync", address, dest); code != 0 {
		t.Errorf("sync: %d\n%s%s", code, stdout, stderr)
	}
	checkStatus(t, dest, 0, "^in step with ")
}

// TestStatusAfterARepair: an audit that repairs a mirror is a run like sync.
func TestStatusAfterARepair(t *testing.T) {
	t.Parallel()
	s, address, dest := syncedSets(t)
	for _, name := range []string{"one.txt", "two.txt"} {
		if err := os.Remove(filepath.Join(dest, name)); err != nil {
			t.Fatal(err)
		}
	}
	s.answer("/two.txt", unavailable)
	if code, stdout, stderr := lockstepRun(t, "audit", address, dest, "--fix", "--retries", "0"); code != 3 {
		t.Errorf("audit --fix of what the Source does not have: %d\n%s%s", code, stdout, stderr)
	}
	checkStatus(t, dest, exitFailed, "^not in step with ", "^one +in step ", "^two +failing ")
	s.answer("/two.txt", nil)
	if code, stdout, stderr := lockstepRun(t, "audit", address, dest, "--fix"); code != 0 {
		t.Errorf("audit --fix: %d\n%s%s", code, stdout, stderr)
	}
	checkStatus(t, dest, 0, "^in step with ")
	if code, stdout, _ := lockstepRun(t, "audit", address, dest); code != 0 || !strings.Contains(stdout, "in step with ") {
		t.Errorf("audit: %d\n%s", code, stdout)
	}
}

// TestStatusOfASetThatWasLeftOut: what has failed in a set that is no longer selected is not tried
// again, and says nothing of the others.
func TestStatusOfASetThatWasLeftOut(t *testing.T) {
	t.Parallel()
	s, dest := newSetsSource(t, "one", "two"), filepath.Join(t.TempDir(), "mirror")
	address := s.URL + "/.well-known/resourcesync"
	s.answer("/two.txt", unavailable)
	if code, _, _ := lockstepRun(t, "sync", address, dest, "--retries", "0"); code != exitFailed {
		t.Errorf("sync with a resource that fails: exit code %d", code)
	}
	if code, stdout, stderr := lockstepRun(t, "sync", address, dest, "--set", "one"); code != 0 {
		t.Errorf("sync --set one: %d\n%s%s", code, stdout, stderr)
	}
	checkStatus(t, dest, 0, "^in step with ", "^one +in step ")
}

// TestStatusAfterARepairOfOneSet: a repair of one set does not bring the others into step.
func TestStatusAfterARepairOfOneSet(t *testing.T) {
	t.Parallel()
	s, address, dest := syncedSets(t)
	s.answer("/two/capabilitylist.xml", unavailable)
	if code, _, _ := lockstepRun(t, "sync", address, dest, "--retries", "0"); code != exitFailed {
		t.Errorf("sync with a set that cannot be read: exit code %d", code)
	}
	if err := os.Remove(filepath.Join(dest, "one.txt")); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := lockstepRun(t, "audit", address, dest, "--fix", "--set", "one"); code != 0 {
		t.Errorf("audit --fix --set one: %d\n%s%s", code, stdout, stderr)
	}
	checkStatus(t, dest, exitFailed, "^not in step with ", "^one +in step ", "^two +failing .*two/capabilitylist.xml")
}

// TestStatusOfPendingResources: whatever is recorded of the last run, a mirror is not in step while
// resources that failed are pending in a set that it followed; those of a set that the Source has withdrawn
// are not tried again.
func TestStatusOfPendingResources(t *testing.T) {
	t.Parallel()
	s, dest := newSetsSource(t, "one", "two"), filepath.Join(t.TempDir(), "mirror")
	address := s.URL + "/.well-known/resourcesync"
	s.answer("/two.txt", unavailable)
	if code, _, _ := lockstepRun(t, "sync", address, dest, "--retries", "0"); code != exitFailed {
		t.Errorf("sync with a resource that fails: exit code %d", code)
	}
	checkStatus(t, dest, exitFailed, "^not in step with .*; 1 pending", "^one +in step ", "^two +failing ")
	recordInStep(t, dest)
	checkStatus(t, dest, exitFailed, "^not in step with .*; 1 pending", "^one +in step ", "^two +failing .*two.txt")

	s.answer("/.well-known/resourcesync", newSetsSource(t, "one").Config.Handler.ServeHTTP)
	if code, stdout, stderr := lockstepRun(t, "sync", address, dest); code != 0 {
		t.Errorf("sync without the set: %d\n%s%s", code, stdout, stderr)
	}
	checkStatus(t, dest, 0, "^in step with ", "^one +in step ")
}

// recordInStep records that the last run brought all sets of the mirror into step.
func recordInStep(t *testing.T, dest string) {
	t.Helper()
	in := mirrordir.RunNote(dest)
	r, ok, err := lastrun.Read(in)
	if err != nil || !ok {
		t.Fatalf("read the last run: %v, %v", ok, err)
	}
	r.Result, r.Error, r.Ended = lastrun.InStep, "", time.Now()
	for i := range r.Sets {
		r.Sets[i].Error = ""
	}
	if err := lastrun.Record(in, r); err != nil {
		t.Fatal(err)
	}
}

// TestStatusOfAnUnfinishedRun: a run that has written files and has not completed did not bring the
// mirror into step, also if the record is that of a run before.
func TestStatusOfAnUnfinishedRun(t *testing.T) {
	t.Parallel()
	s, dest := newSetsSource(t, "one", "two"), filepath.Join(t.TempDir(), "mirror")
	s.block(t, "/two.txt")
	cmd, _ := start(t, t.TempDir(), "sync", s.URL+"/.well-known/resourcesync", dest)
	within(t, "the second set is being fetched", func() bool { return s.asked("/two.txt") })
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was interrupted
	checkStatus(t, dest, exitFailed, "the last run was interrupted")
	recordInStep(t, dest)
	checkStatus(t, dest, exitFailed, "^not in step with .*the last run did not complete", "^one +failing ")
}

// TestStatusAfterTheBucketFailed: a run that cannot reach the bucket of its mirror has failed.
func TestStatusAfterTheBucketFailed(t *testing.T) {
	t.Parallel()
	states := map[string]string{"directory": filepath.Join(t.TempDir(), "state"), "database": postgrestest.URL(t)}
	for name, state := range states {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, s := newTestBucket(t), newSetsSource(t, "one")
			b.home = t.TempDir()
			check := func(code int, text string, args ...string) {
				t.Helper()
				if got, out := b.run(t, time.Minute, args...); got != code || !strings.Contains(out, text) {
					t.Errorf("lockstep %s: exit code %d, want %d, and %q in\n%s", args[0], got, code, text, out)
				}
			}
			sync := []string{"sync", s.URL + "/.well-known/resourcesync", b.address(), "--state", state}
			check(0, "in step with ", sync...)
			check(0, "in step with ", "status", "--state", state)
			b.setFault(func(w http.ResponseWriter, _ *http.Request) bool {
				w.WriteHeader(http.StatusForbidden)
				return true
			})
			check(exitFailed, "reach the mirror in ", sync...)
			check(exitFailed, "reach the mirror in ", "status", "--state", state)
			b.setFault(func(http.ResponseWriter, *http.Request) bool { return false })
			check(0, "in step with ", sync...)
			check(0, "in step with ", "status", "--state", state)
		})
	}
}
