package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"lockstep/destination"
)

// TestServicesStop: SIGTERM is how a service is stopped, and its exit code is 0; after
// Ctrl-C it is 130. With -q nothing is said of it.
func TestServicesStop(t *testing.T) {
	t.Parallel()
	src := newLiveSource(t)
	src.put("a", 100)
	dir := t.TempDir()
	for name, args := range map[string][]string{
		"serve":    {"serve", dir, "--listen", "127.0.0.1:0"},
		"hub":      {"hub", "--listen", "127.0.0.1:0"},
		"simulate": {"simulate", "--listen", "127.0.0.1:0", "--resources", "3"},
		"follow":   {"follow", src.address(), "MIRROR", "--channel", "poll"},
	} {
		for sig, want := range map[syscall.Signal]int{syscall.SIGTERM: exitOK, syscall.SIGINT: exitInterrupted} {
			t.Run(name+" "+sig.String(), func(t *testing.T) {
				t.Parallel()
				args := append([]string{}, args...)
				for i := range args {
					args[i] = strings.ReplaceAll(args[i], "MIRROR", filepath.Join(t.TempDir(), "mirror"))
				}
				if name == "serve" || name == "hub" {
					args = append(args, "--state", filepath.Join(t.TempDir(), "state"))
				}
				p, err := startReady(exec.Command("lockstep", append(args, "-q")...))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(p.kill)
				code, err := p.end(sig)
				if err != nil || code != want {
					t.Errorf("ended with %d, %v, want %d\n%s", code, err, want, p.stderr)
				}
				if said := p.out.String(); strings.Count(said, "\n") != 1 || !strings.HasPrefix(said, "ready: ") {
					t.Errorf("stdout: %s", said)
				}
				for line := range strings.Lines(p.stderr.String()) {
					if sig == syscall.SIGTERM && !strings.HasPrefix(line, "warning: read ") { // what this Source deserves
						t.Errorf("stderr: %s", line)
					}
				}
			})
		}
	}
}

// TestInterruptedSync: an interrupted sync says how much is done, and which command
// continues; as JSON, and of each mirror of a configuration file, too.
func TestInterruptedSync(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "json", "mirrors"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			src := newLiveSource(t)
			src.churn(0, 0, 40)
			src.put("silent", 100)
			reached, release := make(chan struct{}), make(chan struct{})
			t.Cleanup(func() { close(release) })
			var once sync.Once
			src.before(func(_ http.ResponseWriter, r *http.Request, path string) bool {
				if path != "silent" {
					return true
				}
				once.Do(func() { close(reached) })
				select {
				case <-release:
				case <-r.Context().Done():
				}
				return false
			})
			dest := filepath.Join(t.TempDir(), "my mirror")
			cmd := exec.Command("lockstep", "sync", src.address(), dest, "--log-format", format, "--json")
			if format == "mirrors" {
				config := filepath.Join(t.TempDir(), "m.yaml")
				if err := os.WriteFile(config, fmt.Appendf(nil, "mirrors: [{name: mine, source: '%s', dest: '%s'}]\n", src.address(), dest), 0o600); err != nil {
					t.Fatal(err)
				}
				cmd = exec.Command("lockstep", "sync", "--config", config)
			}
			var stdout, stderr syncBuffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			<-reached
			waitFor(t, "the other files", func() bool { return len(readMirror(t, dest)) >= 40 })
			_ = cmd.Process.Signal(os.Interrupt) // it runs, or Wait tells
			if code, err := exitCodeOf(cmd.Wait()); err != nil || code != exitInterrupted {
				t.Errorf("ended with %d, %v\n%s", code, err, &stderr)
			}
			command := "lockstep sync " + src.address() + " '" + dest + "' --log-format " + format + " --json"
			said := stderr.String()
			if format == "mirrors" {
				if !strings.Contains(said, "mine: interrupted: ") || !strings.Contains(said, " resources done") || !strings.Contains(said, "\ninterrupted\nhint: progress is saved; ") {
					t.Errorf("stderr: %s", said)
				}
				return
			}
			var result struct{ Unproven []destination.Unproven }
			if err := json.Unmarshal([]byte(stdout.String()), &result); err != nil || len(result.Unproven) != 1 || result.Unproven[0].Command != command || result.Unproven[0].Needs != "" {
				t.Errorf("%v: the result is %s", err, &stdout)
			}
			if format == "text" {
				if !strings.Contains(said, "interrupted: ") || !strings.Contains(said, " done") || !strings.Contains(said, "again: "+command+"\n") {
					t.Errorf("stderr: %s", said)
				}
				return
			}
			var last struct{ Msg, Hint string }
			for line := range strings.Lines(said) {
				if err := json.Unmarshal([]byte(line), &last); err != nil {
					t.Errorf("%v in %s", err, line)
				}
			}
			if !strings.HasPrefix(last.Msg, "interrupted: ") || !strings.HasSuffix(last.Hint, "again: "+command) {
				t.Errorf("message %q, hint %q", last.Msg, last.Hint)
			}
		})
	}
}
