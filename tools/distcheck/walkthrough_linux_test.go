package distcheck

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestWalkthrough runs the commands of docs/guide/walkthrough.md in order, on a machine
// of its own: a clean Debian with systemd, apt and nginx in namespaces. What they print
// at the end has to be what the guide shows, except for numbers.
func TestWalkthrough(t *testing.T) {
	t.Parallel()
	pkg := result(t, "lockstep_*_"+debianArchitecture()+".deb")
	needRoot(t)
	guide, err := os.ReadFile("../../docs/guide/walkthrough.md")
	if err != nil {
		t.Fatal(err)
	}
	m := bootMachine(t, pkg)
	pings := m.monitor(t)
	steps := guideSteps(strings.ReplaceAll(string(guide), "_amd64.deb", "_"+debianArchitecture()+".deb"))
	for i, s := range steps {
		before := m.service(t)
		got := m.run(t, s)
		if !strings.HasSuffix(withoutNumbers(got), withoutNumbers(s.output)) {
			t.Errorf("%s\nprints\n%s\nwant at its end\n%s", s.commands, got, s.output)
		}
		if upgrade := strings.Contains(s.commands, "_NEWER_"); upgrade && m.service(t) == before {
			t.Error("the upgrade does not restart the service")
		} else if upgrade != (i == len(steps)-2) {
			t.Errorf("step %d of %d: upgrade %t, want it before the last step", i+1, len(steps), upgrade)
		}
	}
	want := []string{"/ping/5ec1/start", "/ping/5ec1", "/ping/5ec1/start", "/ping/5ec1/fail", "/ping/5ec1/start", "/ping/5ec1"}
	if got := pings(); len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
		t.Errorf("the monitor gets %q, want %q first", got, want)
	}
}

// A step is one block of commands in a guide, and what it prints, if that is shown.
type step struct {
	commands, output string
}

// guideSteps returns the blocks of a guide that are marked sh, each with the unmarked
// block that follows it.
func guideSteps(text string) []step {
	var steps []step
	var block *string
	for line := range strings.Lines(text) {
		switch {
		case block != nil && line == "```\n":
			block = nil
		case block != nil:
			*block += line
		case line == "```sh\n":
			steps = append(steps, step{})
			block = &steps[len(steps)-1].commands
		case line == "```\n":
			block = &steps[len(steps)-1].output
		}
	}
	return steps
}

var (
	numbers  = regexp.MustCompile(`\d+([.:,-]\d+)*`)
	spaces   = regexp.MustCompile(` +`)
	wantExit = regexp.MustCompile(`(?m)^(.*)  # exit (\d+)$`)
)

// withoutNumbers replaces times and numbers in the output of commands, and the spaces
// that align them.
func withoutNumbers(output string) string {
	return spaces.ReplaceAllString(numbers.ReplaceAllString(output, "0"), " ")
}

// A machine is a Debian in namespaces, with systemd as its init process.
type machine struct {
	root string
	pid  int // of init
}

// bootMachine starts a machine whose administrator has downloaded two versions of a
// package, and ends it with the test.
func bootMachine(t *testing.T, pkg string) *machine {
	t.Helper()
	for _, name := range []string{"unshare", "nsenter", "dpkg-deb"} {
		need(t, name)
	}
	packages := []string{"systemd", "apt", "passwd", "debconf", "curl", "nginx-light"}
	for line := range strings.Lines(output(t, "dpkg-query", "-W", "-f", "${Package} ${Essential}\n")) {
		if name, essential := strings.CutSuffix(strings.TrimSpace(line), " yes"); essential {
			packages = append(packages, name)
		}
	}
	m := &machine{root: cleanRoot(t, packages...)}
	home := filepath.Join(m.root, "root")
	output(t, "cp", pkg, filepath.Join(home, "lockstep_VERSION_"+debianArchitecture()+".deb"))
	output(t, "dpkg-deb", "-R", pkg, filepath.Join(home, "package"))
	output(t, "sed", "-i", "s/^Version: .*/Version: 1000/", filepath.Join(home, "package/DEBIAN/control"))
	output(t, "dpkg-deb", "-Znone", "-b", filepath.Join(home, "package"), filepath.Join(home, "lockstep_NEWER_"+debianArchitecture()+".deb"))
	for name, text := range map[string]string{
		"etc/machine-id": "", "etc/hosts": "127.0.0.1 localhost data.example.org monitor.example.net\n",
	} {
		if err := os.WriteFile(filepath.Join(m.root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	console, err := os.Create(filepath.Join(t.TempDir(), "console"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = console.Close() }() // the machine has its own
	printed := func() []byte { text, _ := os.ReadFile(console.Name()); return text }
	cmd := exec.Command("testdata/boot.sh", m.root, strconv.Itoa(os.Getpid()))
	cmd.Stdout, cmd.Stderr = console, console
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("this machine does not permit namespaces: %v", err)
	}
	m.pid = cmd.Process.Pid
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // killed, or systemd could not be started
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // and all processes of the machine with it
		<-ended
		removeCgroup(t)
	})
	for deadline := time.Now().Add(readyLimit); ; {
		out, err := m.command("systemctl is-system-running").CombinedOutput()
		state := strings.TrimSpace(string(out))
		if err == nil || state == "degraded" {
			return m
		}
		select {
		case <-ended:
			t.Skipf("this machine cannot run systemd in namespaces: %s", printed())
		case <-time.After(100 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Skipf("this machine cannot run systemd in namespaces: it is %q after %s\n%s", state, readyLimit, printed())
		}
	}
}

// removeCgroup removes the empty cgroups that a machine leaves behind.
func removeCgroup(t *testing.T) {
	script := `mount --make-rprivate /
if [ "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs ]; then mount -t cgroup2 cgroup2 /mnt; else mount -t cgroup -o none,name=systemd cgroup /mnt; fi
[ ! -d /mnt/$0 ] || find /mnt/$0 -depth -type d -exec rmdir {} +`
	name := "lockstep-distcheck-" + strconv.Itoa(os.Getpid())
	if out, err := exec.Command("unshare", "--mount", "sh", "-c", script, name).CombinedOutput(); err != nil {
		t.Logf("remove the cgroups of the machine: %v\n%s", err, out)
	}
}

// command returns a command for the shell of root in the machine.
func (m *machine) command(text string) *exec.Cmd {
	return exec.Command("nsenter", "--target", strconv.Itoa(m.pid), "--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup", "chroot", m.root,
		"/usr/bin/env", "-i", "HOME=/root", "DEBIAN_FRONTEND=noninteractive", "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
		"/bin/bash", "-c", "cd /root\n"+text)
}

// run runs the commands of a step as an administrator would paste them, and returns
// what they print. A comment "# exit 1" is the exit code promised.
func (m *machine) run(t *testing.T, s step) string {
	t.Helper()
	// Each command has to succeed, or to end as the comment says.
	script := wantExit.ReplaceAllString(s.commands, `$1 || [ $$? = $2 ] || exit 100`)
	cmd := m.command("set -e\n" + script)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(2*readyLimit, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	if err := cmd.Wait(); err != nil {
		logs, _ := m.command("journalctl --no-pager -n 50").CombinedOutput() // for the failure below
		t.Fatalf("%s: %v\n%s\njournal:\n%s", s.commands, err, out.String(), logs)
	}
	printed := slices.DeleteFunc(slices.Collect(strings.Lines(out.String())), func(line string) bool {
		return strings.HasPrefix(line, "Job for ") || strings.HasPrefix(line, "See \"systemctl ") // of systemctl
	})
	return strings.Join(printed, "")
}

// service returns the process of lockstep-serve.
func (m *machine) service(t *testing.T) string {
	t.Helper()
	out, err := m.command("systemctl show -P MainPID lockstep-serve").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// monitor listens in the machine as the monitor of the guide. The function returned
// says what it was sent.
func (m *machine) monitor(t *testing.T) func() []string {
	t.Helper()
	listener := make(chan net.Listener)
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // without unlocking it, the thread ends with this function
		l, err := listenInside(m.pid, "127.0.0.1:8000")
		if err != nil {
			failed <- err
			return
		}
		listener <- l
	}()
	var mu sync.Mutex
	var paths []string
	select {
	case err := <-failed:
		t.Fatal(err)
	case l := <-listener:
		server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // the summary
			mu.Lock()
			defer mu.Unlock()
			paths = append(paths, r.URL.Path)
		})}
		t.Cleanup(func() { _ = server.Close() }) // also when the test has failed
		go func() { _ = server.Serve(l) }()      // until it is closed
	}
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(paths)
	}
}

// listenInside listens on an address in the network of a process. The thread stays in
// that network.
func listenInside(pid int, address string) (net.Listener, error) {
	network, err := os.Open("/proc/" + strconv.Itoa(pid) + "/ns/net")
	if err != nil {
		return nil, err
	}
	err = unix.Setns(int(network.Fd()), unix.CLONE_NEWNET)
	if err := errors.Join(err, network.Close()); err != nil {
		return nil, err
	}
	return net.Listen("tcp", address)
}
