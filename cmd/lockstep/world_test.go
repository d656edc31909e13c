package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	_ "modernc.org/sqlite" // the driver

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/listen"
)

// readyLimit is how long a Source in the tests may take until it serves, and
// a change until it is noticed: plenty, for machines that are busy.
const readyLimit = 60 * time.Second

// endLimit is how long a process may take to end after a signal: ten seconds, as
// the program promises, and as many again twice over, for machines that are busy.
const endLimit = 30 * time.Second

// A world is what the scripts' own commands share within one script.
type world struct {
	running map[string]*process
}

type worldKey struct{}

func worldOf(ts *testscript.TestScript) *world { return ts.Value(worldKey{}).(*world) }

// A process is a lockstep that runs in the background and has said that it is
// ready.
type process struct {
	cmd     *exec.Cmd
	address string
	admin   string // path of the admin socket; "" if there is none
	out     *syncBuffer
	stderr  *syncBuffer
	done    chan error
}

// startReady runs the program with arguments that make it serve, and returns
// once its line "ready: ADDRESS" has come: on stdout, or where that has
// something else, on stderr.
func startReady(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, out: &syncBuffer{}, stderr: &syncBuffer{}, done: make(chan error, 1)}
	ready := make(chan string, 2)
	cmd.Stdout, cmd.Stderr = io.MultiWriter(p.out, &readyLine{ready: ready}), io.MultiWriter(p.stderr, &readyLine{ready: ready})
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() { p.done <- cmd.Wait() }()
	select {
	case p.address = <-ready:
		p.admin = adminSocket(p.out.String() + p.stderr.String())
		if u, err := url.Parse(p.address); err == nil && p.admin != "" {
			adminSockets.Store(u.Host, p.admin)
		}
		return p, nil
	case err := <-p.done:
		p.done <- err
	case <-time.After(readyLimit):
	}
	_ = cmd.Process.Kill() // may have ended
	return nil, fmt.Errorf("%s: not ready\n%s%s", strings.Join(cmd.Args, " "), p.out, p.stderr)
}

// adminSockets are the admin sockets of processes, by host and port of their
// public address.
var adminSockets sync.Map

// adminSocket returns the path of the admin socket that a process says it has.
func adminSocket(out string) string {
	m := regexp.MustCompile(`(?m)^  administration   unix:(.+)$`).FindStringSubmatch(out)
	if m == nil {
		return ""
	}
	return m[1]
}

// A readyLine looks for the first line that says that a process is ready in
// what is written to it.
type readyLine struct {
	ready chan<- string
	line  []byte
	found bool
}

func (r *readyLine) Write(p []byte) (int, error) {
	if r.found {
		return len(p), nil
	}
	r.line = append(r.line, p...)
	for !r.found {
		line, rest, whole := bytes.Cut(r.line, []byte("\n"))
		if !whole {
			break
		}
		if address, ok := strings.CutPrefix(string(line), listen.ReadyPrefix); ok {
			r.found = true
			r.ready <- address
		}
		r.line = rest
	}
	return len(p), nil
}

// end asks the process to end and returns its exit code.
func (p *process) end(sig os.Signal) (int, error) {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return 0, err
	}
	select {
	case err := <-p.done:
		p.done <- err
		return exitCodeOf(err)
	case <-time.After(endLimit):
		return 0, fmt.Errorf("still running %v after the signal", endLimit)
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // may have ended
	p.done <- <-p.done
}

func exitCodeOf(err error) (int, error) {
	if ee, ok := errors.AsType[*exec.ExitError](err); ok {
		return ee.ExitCode(), nil
	}
	return 0, err
}

// source: `source VAR ARG...` runs `lockstep ARG...` in the background until
// the end of the script, waits until it is ready, and sets VAR to the address
// it serves at, VAR_HOST to host and port of it, VAR_ADMIN to the path of its
// admin socket.
func (w *world) source(ts *testscript.TestScript, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: source VAR ARG...")
	}
	path, err := exec.LookPath("lockstep")
	ts.Check(err)
	cmd := exec.Command(path, held(ts, args[1:])...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = environment(ts)
	p, err := startReady(cmd)
	ts.Check(err)
	ts.Defer(p.kill)
	w.running[args[0]] = p
	ts.Setenv(args[0], p.address)
	if u, err := url.Parse(p.address); err == nil {
		ts.Setenv(args[0]+"_HOST", u.Host)
	}
	ts.Setenv(args[0]+"_ADMIN", p.admin)
	if m := regexp.MustCompile(`(?m)^  administration   (https://.+)$`).FindStringSubmatch(p.out.String()); m != nil {
		ts.Setenv(args[0]+"_ADMIN", m[1])
	}
	ts.Logf("%s is %s", args[0], p.address)
}

// anyPort is an address that has the system choose a port.
var anyPort = regexp.MustCompile(`\b127\.0\.0\.1:0\b`)

// held gives arguments that have the system choose a port one that the script keeps.
func held(ts *testscript.TestScript, args []string) []string {
	out := slices.Clone(args)
	for i, arg := range out {
		if anyPort.MatchString(arg) {
			address, release, err := holdAddress()
			ts.Check(err)
			ts.Defer(release)
			out[i] = anyPort.ReplaceAllString(arg, address)
		}
	}
	return out
}

// halt: `halt VAR CODE` ends what `source VAR` began by SIGTERM and checks its
// exit code. Its port remains its own.
func (w *world) halt(ts *testscript.TestScript, args []string) {
	if len(args) != 2 || w.running[args[0]] == nil {
		ts.Fatalf("usage: halt VAR CODE")
	}
	p := w.running[args[0]]
	code, err := p.end(syscall.SIGTERM)
	ts.Logf("%s%s", p.out, p.stderr)
	ts.Check(err)
	if strconv.Itoa(code) != args[1] {
		ts.Fatalf("%s ended with exit code %d, want %s", args[0], code, args[1])
	}
}

// hangup: `hangup VAR` sends SIGHUP to what `source VAR` began.
func (w *world) hangup(ts *testscript.TestScript, args []string) {
	if len(args) != 1 || w.running[args[0]] == nil {
		ts.Fatalf("usage: hangup VAR")
	}
	ts.Check(w.running[args[0]].cmd.Process.Signal(syscall.SIGHUP))
}

// told: `told VAR REGEXP` waits until what `source VAR` began has written a line
// that matches, to stdout or stderr.
func (w *world) told(ts *testscript.TestScript, args []string) {
	if len(args) != 2 || w.running[args[0]] == nil {
		ts.Fatalf("usage: told VAR REGEXP")
	}
	want, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	p := w.running[args[0]]
	for deadline := time.Now().Add(readyLimit); !want.MatchString(p.out.String() + p.stderr.String()); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			ts.Fatalf("%s never wrote %q:\n%s%s", args[0], args[1], p.out, p.stderr)
		}
	}
}

// static: `static VAR DIR [PREFIX]` serves DIR as any plain web server would,
// below /PREFIX/ if given, and sets VAR to the address. `static VAR DIR` with a
// file DIR/.status holding "CODE PATH" lines answers those paths with CODE.
func (w *world) static(ts *testscript.TestScript, args []string) {
	if len(args) != 2 && len(args) != 3 {
		ts.Fatalf("usage: static VAR DIR [ADDRESS]")
	}
	address := "127.0.0.1:0"
	if len(args) == 3 {
		address = strings.TrimSuffix(strings.TrimPrefix(args[2], "http://"), "/")
	}
	l, err := net.Listen("tcp", address)
	ts.Check(err)
	dir := ts.MkAbs(args[1])
	files := http.FileServer(http.Dir(dir))
	srv := &http.Server{ReadHeaderTimeout: readyLimit, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		text, _ := os.ReadFile(filepath.Join(dir, ".status")) // none: no faults
		for line := range strings.Lines(string(text)) {
			if code, path, ok := strings.Cut(strings.TrimSpace(line), " "); ok && path == r.URL.Path {
				n, _ := strconv.Atoi(code)
				http.Error(rw, http.StatusText(n), n)
				return
			}
		}
		files.ServeHTTP(rw, r)
	})}
	go func() { _ = srv.Serve(l) }() // until the script ends
	ts.Defer(func() { _ = srv.Close() })
	ts.Setenv(args[0], "http://"+l.Addr().String()+"/")
}

// exit: `exit CODE PROGRAM ARG...` runs a program and checks its exit code;
// stdout and stderr are there for the commands of these names.
func (w *world) exit(ts *testscript.TestScript, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exit CODE PROGRAM ARG...")
	}
	got, err := exitCodeOf(ts.Exec(args[1], args[2:]...))
	ts.Check(err)
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// same: `same DIR MIRROR` checks that two directories hold the same files with
// the same bytes; what Lockstep keeps for itself is left out.
func (w *world) same(ts *testscript.TestScript, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: same DIR MIRROR")
	}
	a, err := contents(ts.MkAbs(args[0]))
	ts.Check(err)
	b, err := contents(ts.MkAbs(args[1]))
	ts.Check(err)
	for path, text := range a {
		if other, ok := b[path]; !ok {
			ts.Fatalf("%s is not in %s", path, args[1])
		} else if other != text {
			ts.Fatalf("%s differs", path)
		}
	}
	for path := range b {
		if _, ok := a[path]; !ok {
			ts.Fatalf("%s is only in %s", path, args[1])
		}
	}
}

// becomes: `becomes DIR MIRROR` waits until two directories hold the same files
// with the same bytes.
func (w *world) becomes(ts *testscript.TestScript, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: becomes DIR MIRROR")
	}
	want, err := contents(ts.MkAbs(args[0]))
	ts.Check(err)
	diff := ""
	for deadline := time.Now().Add(readyLimit); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		got, err := contents(ts.MkAbs(args[1]))
		if diff = difference(got, want); err == nil && diff == "" {
			return
		}
	}
	for _, p := range w.running {
		ts.Logf("%s%s", p.out, p.stderr)
	}
	ts.Fatalf("%s never became %s: %s", args[1], args[0], diff)
}

// comes: `comes FILE REGEXP` waits until the file has it.
func comes(ts *testscript.TestScript, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: comes FILE REGEXP")
	}
	want, err := regexp.Compile(args[1])
	ts.Check(err)
	var text []byte
	for deadline := time.Now().Add(readyLimit); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		text, err = os.ReadFile(ts.MkAbs(args[0]))
		if err == nil && want.Match(text) { // the file may have yet to come
			return
		}
	}
	ts.Fatalf("%s never came into %s:\n%s", args[1], args[0], text)
}

// ended: `ended VAR CODE` waits until what `source VAR` began has ended by
// itself, with that exit code.
func (w *world) ended(ts *testscript.TestScript, args []string) {
	if len(args) != 2 || w.running[args[0]] == nil {
		ts.Fatalf("usage: ended VAR CODE")
	}
	p := w.running[args[0]]
	select {
	case err := <-p.done:
		p.done <- err
		code, err := exitCodeOf(err)
		ts.Check(err)
		if strconv.Itoa(code) != args[1] {
			ts.Fatalf("%s ended with exit code %d, want %s", args[0], code, args[1])
		}
	case <-time.After(readyLimit):
		ts.Fatalf("%s has not ended", args[0])
	}
}

// contents reads all files below dir, without .lockstep.
func contents(dir string) (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && d.Name() == ".lockstep" {
				return filepath.SkipDir
			}
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		files[rel] = string(text)
		return err
	})
	return files, err
}

// flip: `flip FILE` changes one byte in the middle of a file and nothing else
// about it, as a bad disk would.
func (w *world) flip(ts *testscript.TestScript, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: flip FILE")
	}
	ts.Check(flip(ts.MkAbs(args[0])))
}

func flip(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text[len(text)/2] ^= 1
	if err := os.WriteFile(path, text, info.Mode()); err != nil {
		return err
	}
	return os.Chtimes(path, time.Time{}, info.ModTime())
}

// save: `save URL FILE` writes what is at URL to a file.
func (w *world) save(ts *testscript.TestScript, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: save URL FILE")
	}
	text, err := get(args[0])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o666))
}

// socketFor returns the admin socket on which to ask for an address; "" if it is
// a public one.
func socketFor(address string) string {
	u, err := url.Parse(address)
	if err != nil || !strings.Contains(u.Path, "/"+admin.PagesDir) || strings.HasSuffix(u.Path, "/healthz") || strings.HasSuffix(u.Path, "/readyz") {
		return ""
	}
	socket, _ := adminSockets.Load(u.Host)
	path, _ := socket.(string)
	return path
}

// newer: `newer DATABASE` makes a database one of a later version.
func (w *world) newer(ts *testscript.TestScript, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: newer DATABASE")
	}
	db, err := sql.Open("sqlite", ts.MkAbs(args[0]))
	ts.Check(err)
	_, err = db.Exec(`UPDATE schema_version SET version = 99`)
	ts.Check(errors.Join(err, db.Close()))
}

// post: `post URL FILE ANSWER` posts the text of FILE and writes what is answered
// to ANSWER; the status goes to stdout.
func (w *world) post(ts *testscript.TestScript, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: post URL FILE ANSWER")
	}
	f, err := os.Open(ts.MkAbs(args[1]))
	ts.Check(err)
	defer func() { _ = f.Close() }() // read only
	resp, err := http.Post(args[0], "text/plain", f)
	ts.Check(err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), text, 0o666))
	_, err = fmt.Fprintln(ts.Stdout(), resp.Status)
	ts.Check(err)
}

// eventually: `eventually URL TEXT` asks for URL until TEXT is in the answer.
func (w *world) eventually(ts *testscript.TestScript, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: eventually URL TEXT")
	}
	deadline := time.Now().Add(readyLimit)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		text, err := get(args[0])
		if err == nil && strings.Contains(text, args[1]) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s never held %q: %v\n%s", args[0], args[1], err, text)
		}
		<-tick.C
	}
}

// get returns what is at an address. Pages that take the admin token are read
// from the admin socket of the process there.
func get(address string) (string, error) {
	client := http.DefaultClient
	if socket := socketFor(address); socket != "" {
		t := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}}
		defer t.CloseIdleConnections()
		client = &http.Client{Transport: t}
	}
	resp, err := client.Get(address)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// A syncBuffer is a buffer that may be read while it is written.
type syncBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
