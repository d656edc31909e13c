//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/storage/postgres/postgrestest"
)

// A sharedMirror is a mirror in a bucket with its state in PostgreSQL, on which several
// machines work, one at a time.
type sharedMirror struct {
	*testBucket
	t     *testing.T
	dir   string // of the Source
	src   *livingSource
	state string
}

func newSharedMirror(t *testing.T) *sharedMirror {
	t.Helper()
	m := &sharedMirror{testBucket: newTestBucket(t), t: t, dir: t.TempDir(), state: postgrestest.URL(t)}
	for i := range 40 {
		m.write(fmt.Sprintf("d%d/file %d", i%3, i), fmt.Sprint("first ", i))
	}
	m.src = newLivingSource(t, m.dir, filepath.Join(t.TempDir(), "state"))
	return m
}

func (m *sharedMirror) write(name, text string) {
	m.t.Helper()
	path := filepath.Join(m.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// published waits until the Source has published what is in its directory.
func (m *sharedMirror) published() {
	m.t.Helper()
	want, err := contents(m.dir)
	if err != nil {
		m.t.Fatal(err)
	}
	digests := map[string]string{}
	for name, text := range want {
		digests[name] = digest(text)
	}
	(&life{TB: m.t, src: m.src}).published(digests)
}

// on runs a command on a machine, and wants an exit code. It returns what the command said.
func (m *sharedMirror) on(machine string, want int, args ...string) string {
	m.t.Helper()
	m.home = machine
	code, stderr := m.run(m.t, time.Minute, args...)
	if code != want {
		m.t.Fatalf("%s: exit code %d, want %d\n%s", strings.Join(args, " "), code, want, stderr)
	}
	return stderr
}

func (m *sharedMirror) sync() []string {
	return []string{"sync", m.src.base, m.address(), "--state", m.state, "--max-delete", "100"}
}

// same compares the bucket with the directory.
func (m *sharedMirror) same() {
	m.t.Helper()
	want, err := contents(m.dir)
	if err != nil {
		m.t.Fatal(err)
	}
	got := map[string]string{}
	for name, text := range m.objects(m.t) {
		got[strings.ReplaceAll(name, "%20", " ")] = text
	}
	if diff := cmp.Diff(want, got); diff != "" {
		m.t.Fatalf("the mirror differs: (-want +got)\n%.2000s", diff)
	}
}

// Any machine continues what another one has begun: nothing that is needed is on one of them.
func TestSharedMirror(t *testing.T) {
	t.Parallel()
	m := newSharedMirror(t)
	one, two := t.TempDir(), t.TempDir()
	m.on(one, exitOK, m.sync()...)
	m.same()
	if out := m.on(two, exitOK, m.sync()...); !strings.Contains(out, "nothing to do") {
		t.Errorf("the second machine: %s", out)
	}
	for i, machine := range []string{two, one, t.TempDir()} {
		m.write("new", fmt.Sprint(i))
		m.write(fmt.Sprintf("d0/file %d", 3*i), "second")
		if err := os.Remove(filepath.Join(m.dir, fmt.Sprintf("d1/file %d", 3*i+1))); err != nil {
			t.Fatal(err)
		}
		m.published()
		if out := m.on(machine, exitOK, m.sync()...); !strings.Contains(out, "only changes read") {
			t.Errorf("machine %d: %s", i, out)
		}
		m.same()
		m.on(machine, exitOK, "audit", "--content", m.src.base, m.address(), "--state", m.state)
	}

	if out := m.on(one, exitUsage, "sync", m.src.base, "s3://copies/elsewhere", "--state", m.state); !strings.Contains(out, "belongs to s3://copies/here") {
		t.Errorf("another bucket: %s", out)
	}
	if out := m.on(one, exitUsage, "sync", m.src.base, t.TempDir(), "--state", m.state); !strings.Contains(out, "--state is for mirrors in buckets") {
		t.Errorf("a directory: %s", out)
	}

	cmd := exec.Command("lockstep", "status", "--state", m.state, "--json")
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+t.TempDir())
	text, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var status struct {
		Destination string `json:"destination"`
		Resources   int    `json:"resources"`
	}
	if err := json.Unmarshal(text, &status); err != nil || status.Destination != m.address()+"/" || status.Resources != 38 {
		t.Errorf("status: %v, %s", err, text)
	}
}

// A dry run and an audit of a mirror that does not exist yet make nothing.
func TestSharedMirrorDryRun(t *testing.T) {
	t.Parallel()
	m := newSharedMirror(t)
	m.on(t.TempDir(), exitOK, append(m.sync(), "--dry-run")...)
	if out, err := exec.Command("lockstep", "state", "info", m.state).CombinedOutput(); err == nil {
		t.Errorf("there is a state: %s", out)
	}
}

// A machine that is stopped while another one takes over cannot change the mirror any more.
func TestSharedMirrorTakeover(t *testing.T) {
	t.Parallel()
	m := newSharedMirror(t)
	one, two := t.TempDir(), t.TempDir()
	m.on(one, exitOK, m.sync()...)

	follow := exec.Command("lockstep", "follow", m.src.base, m.address(), "--state", m.state, "--max-delete", "100", "--poll", "50ms", "--admin", "off")
	follow.Env = append(os.Environ(), "XDG_STATE_HOME="+one)
	for name, value := range bucketEnv(m.URL) {
		follow.Env = append(follow.Env, name+"="+value)
	}
	var said bytes.Buffer
	follow.Stderr = &said
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- follow.Wait() }()
	t.Cleanup(func() { _ = follow.Process.Kill() })
	m.write("new", "by follow")
	waitFor(t, "what follow has written", func() bool { return m.objects(t)["new"] == "by follow" })

	if out := m.on(two, exitFailed, m.sync()...); !strings.Contains(out, "follow on ") || !strings.Contains(out, "hint: wait for it to end") {
		t.Errorf("while follow runs: %s", out)
	}
	if err := follow.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	m.write("new", "by another")
	m.write("newer", "by another")
	m.published()
	m.on(two, exitOK, m.sync()...)
	m.same()
	before := m.objects(t)
	var wrote bytes.Buffer
	m.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			fmt.Fprintln(&wrote, r.Method, r.URL)
			_, _ = io.Copy(io.Discard, r.Body)
		}
		return false
	})
	m.write("newest", "after the takeover")
	m.published()
	if err := follow.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if code, _ := exitCodeOf(err); code != exitFailed || !strings.Contains(said.String(), "this process no longer owns the database: ") {
			t.Errorf("follow ended with %d: %s", code, said.String())
		}
	case <-time.After(time.Minute):
		t.Fatalf("follow continues: %s", said.String())
	}
	if after := m.objects(t); !maps.Equal(before, after) || wrote.Len() > 0 {
		t.Errorf("the mirror has changed: %s", wrote.String())
	}
	m.setFault(func(http.ResponseWriter, *http.Request) bool { return false })
	m.on(one, exitOK, m.sync()...)
	m.same()
}
