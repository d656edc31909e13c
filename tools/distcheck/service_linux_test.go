package distcheck

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// readyLimit is how long a service may take until it is ready, and to end.
const readyLimit = time.Minute

// A service is a process that has printed that it is ready.
type service struct {
	cmd     *exec.Cmd
	address string // what it has printed
	done    chan error
}

// start runs a command until it prints that it is ready.
func start(t *testing.T, cmd *exec.Cmd) *service {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &service{cmd: cmd, done: make(chan error, 1)}
	ready := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if address, ok := strings.CutPrefix(lines.Text(), "ready: "); ok {
				ready <- address
			}
		}
		s.done <- cmd.Wait()
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may have ended
	select {
	case s.address = <-ready:
	case err := <-s.done:
		t.Fatalf("%s ended: %v\n%s", strings.Join(cmd.Args, " "), err, stderr.String())
	case <-time.After(readyLimit):
		t.Fatalf("%s is not ready after %s", strings.Join(cmd.Args, " "), readyLimit)
	}
	return s
}

// end stops a service as systemd does.
func (s *service) end(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-s.done:
		if got := exitCode(err); got != 0 {
			t.Errorf("%s ended with %d after SIGTERM, want 0", strings.Join(s.cmd.Args, " "), got)
		}
	case <-time.After(readyLimit):
		t.Fatalf("%s does not end", strings.Join(s.cmd.Args, " "))
	}
}

// A unit is what a unit file of systemd says, by key.
type unit struct {
	name string
	keys map[string][]string
}

// units is where the packages have the units.
const units = "usr/lib/systemd/system"

// readUnit reads the file of a unit below root. An instance, such as a@b.service, has
// that of its template.
func readUnit(t *testing.T, root, name string) *unit {
	t.Helper()
	file, instance := name, ""
	if before, after, ok := strings.Cut(name, "@"); ok {
		instance = strings.TrimSuffix(after, filepath.Ext(after))
		file = before + "@" + filepath.Ext(after)
	}
	text, err := os.ReadFile(filepath.Join(root, units, file))
	if err != nil {
		t.Fatal(err)
	}
	u := &unit{name: name, keys: map[string][]string{}}
	for line := range strings.Lines(string(text)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && !strings.HasPrefix(key, "#") {
			u.keys[key] = append(u.keys[key], strings.ReplaceAll(value, "%i", instance))
		}
	}
	return u
}

// command returns the command of a unit below root, to be run as its user with its
// environment and the variables given. It is what systemd would run, without the
// sandbox.
func (u *unit) command(t *testing.T, root string, variables ...string) *exec.Cmd {
	t.Helper()
	env := map[string]string{}
	set := func(assignment string) {
		name, value, _ := strings.Cut(assignment, "=")
		env[name] = value
	}
	for _, line := range u.keys["Environment"] {
		for _, assignment := range strings.Fields(line) {
			set(assignment)
		}
	}
	for _, file := range u.keys["EnvironmentFile"] {
		path, optional := strings.CutPrefix(file, "-")
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil && !(optional && os.IsNotExist(err)) {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				set(line)
			}
		}
	}
	for _, assignment := range variables {
		set(assignment)
	}
	args := strings.Fields(u.keys["ExecStart"][0])
	for i := range args {
		args[i] = os.Expand(args[i], func(name string) string { return env[name] })
	}
	cmd := &exec.Cmd{Path: args[0], Args: args, Dir: u.keys["WorkingDirectory"][0], SysProcAttr: asUser(t, root, u.keys["User"][0])}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd
}

// asUser has a process run below root as a user whom /etc/passwd there names.
func asUser(t *testing.T, root, name string) *syscall.SysProcAttr {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "etc/passwd"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(line, ":")
		if len(f) < 4 || f[0] != name {
			continue
		}
		uid, err1 := strconv.ParseUint(f[2], 10, 32)
		gid, err2 := strconv.ParseUint(f[3], 10, 32)
		if err1 != nil || err2 != nil || uid == 0 {
			t.Fatalf("user %s has IDs %s and %s", name, f[2], f[3])
		}
		return &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	t.Fatalf("there is no user %s in %s", name, root)
	return nil
}

// needRoot skips a test that must change its root and user.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can install packages and change users; run it with sudo")
	}
}
