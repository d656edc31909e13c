package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestStatusDuringRun: the state of a mirror can be read while a process works on it, without
// waiting; afterwards it says whether the run was interrupted or killed.
func TestStatusDuringRun(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]os.Signal{"interrupted": os.Interrupt, "killed": os.Kill} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := newLiveSource(t)
			src.put("silent", 100)
			reached, release := make(chan struct{}), make(chan struct{})
			t.Cleanup(func() { close(release) })
			var once sync.Once
			src.before(func(_ http.ResponseWriter, r *http.Request, _ string) bool {
				once.Do(func() { close(reached) })
				select {
				case <-release:
				case <-r.Context().Done():
				}
				return false
			})
			dest := filepath.Join(t.TempDir(), "mirror")
			cmd := exec.Command("lockstep", "sync", src.address(), dest)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill() }) // has ended, unless the test has failed
			<-reached
			start := time.Now()
			code, stdout, stderr := lockstepRun(t, "status", dest)
			if code != exitFailed || !strings.HasPrefix(stdout, "not yet in step with ") || !strings.Contains(stdout, "a run is in progress (lockstep sync, process ") {
				t.Errorf("during the run: %d\n%s%s", code, stdout, stderr)
			}
			if took := time.Since(start); took > endLimit {
				t.Errorf("it took %s", took)
			}
			if err := cmd.Process.Signal(end); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // it was ended
			code, stdout, stderr = lockstepRun(t, "status", dest)
			if code != exitFailed || !strings.Contains(stdout, "the last run was "+name) || strings.Contains(stdout, "in progress") {
				t.Errorf("after it: %d\n%s%s", code, stdout, stderr)
			}
			if strings.Contains(stdout, "0 pending") || !strings.Contains(stdout, "\nhint: progress is saved; to continue, run the same command again") {
				t.Errorf("what is pending is not known, and the same command continues:\n%s", stdout)
			}
		})
	}
}
