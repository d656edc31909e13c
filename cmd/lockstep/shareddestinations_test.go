//go:build unix

package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lockstep/destination"
	"lockstep/storage/postgres/postgrestest"
)

// sharedRuns is how many runs TestSharedKill does: 200 for make soak.
var sharedRuns = flag.Int("shared-runs", 2, "how many runs of several Destination processes are disturbed")

// A sharedWorld is a Source and a mirror that several processes share.
type sharedWorld struct {
	*testBucket
	t     *testing.T
	src   *countingSource
	state string
	dir   string
}

func newSharedWorld(t *testing.T, n int, others ...map[string][]byte) *sharedWorld {
	t.Helper()
	w := &sharedWorld{testBucket: newTestBucket(t), t: t, src: newCountingSource(t, n, others...), state: postgrestest.URL(t), dir: t.TempDir()}
	w.setFault(func(http.ResponseWriter, *http.Request) bool { return false })
	w.Config.Handler = conditionalUploads(w.Config.Handler)
	return w
}

// conditionalUploads adds conditions for the end of uploads in parts, which the fake service ignores.
func conditionalUploads(next http.Handler) http.Handler {
	var mu sync.Mutex // one at a time
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		is, not := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
		if r.Method != http.MethodPost || is == "" && not == "" {
			next.ServeHTTP(w, r)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		head := httptest.NewRecorder()
		next.ServeHTTP(head, httptest.NewRequest(http.MethodHead, r.URL.Path, nil))
		tag := head.Header().Get("ETag")
		if head.Code != http.StatusOK {
			tag = ""
		}
		if not != "" && tag != "" || is != "" && tag != is {
			w.WriteHeader(http.StatusPreconditionFailed)
			_, _ = io.WriteString(w, `<?xml version="1.0"?><Error><Code>PreconditionFailed</Code></Error>`)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// A sharer is one process of a shared mirror.
type sharer struct {
	cmd   *exec.Cmd
	out   bytes.Buffer
	err   syncBuffer
	ended chan error
}

func (w *sharedWorld) start(command string, more ...string) *sharer {
	w.t.Helper()
	args := append([]string{command, w.src.URL + "/resourcelist.xml", w.address(), "--state", w.state, "--shared", "--max-delete", "100"}, more...)
	p := &sharer{cmd: sharingCommand(w.t, args...), ended: make(chan error, 1)}
	p.cmd.Env = append(p.cmd.Environ(), "XDG_STATE_HOME="+w.dir)
	for name, value := range bucketEnv(w.URL) {
		p.cmd.Env = append(p.cmd.Env, name+"="+value)
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	if err := p.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	w.t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

// end waits for the end of a process, and returns its exit code; -1: it was killed.
func (w *sharedWorld) end(p *sharer) int {
	w.t.Helper()
	select {
	case err := <-p.ended:
		p.ended <- err
		code, err := exitCodeOf(err)
		if err != nil {
			return -1
		}
		return code
	case <-time.After(2 * time.Minute):
		w.t.Fatalf("a process does not end: %s%s", p.out.String(), p.err.String())
		return 0
	}
}

// waitForProcesses waits until n processes share the mirror.
func (w *sharedWorld) waitForProcesses(n int) {
	w.t.Helper()
	db, err := sql.Open("pgx", w.state)
	if err != nil {
		w.t.Fatal(err)
	}
	defer db.Close()
	waitFor(w.t, fmt.Sprint(n, " processes"), func() bool {
		var have int
		err := db.QueryRow(`SELECT count(*) FROM share_process`).Scan(&have)
		return err == nil && have >= n
	})
}

// check compares the mirror with the Source.
func (w *sharedWorld) check() {
	w.t.Helper()
	got := w.objects(w.t)
	for name := range got {
		if strings.HasPrefix(name, ".lockstep/") {
			delete(got, name)
		}
	}
	w.src.check(w.t, got)
}

// sentAhead is how many requests the HTTP clients of three processes repeat that they have sent ahead of
// their turn, if the answer before takes longer than a second: seven on each of eight connections.
const sentAhead = 3 * 8 * 7

// Several processes fetch each resource once, and have the same result.
func TestSharedDestinations(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	w := newSharedWorld(t, 1500, map[string][]byte{"/large": large})
	w.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut { // a bucket is not next door
			time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
		}
		return false
	})
	events := filepath.Join(t.TempDir(), "events")
	var ps []*sharer
	for range 3 {
		ps = append(ps, w.start("sync", "--json", "--rate", "150", "--exec", "cat >> "+events, "--log-level", "info"))
	}
	var all []destination.Report
	own := int64(0)
	for _, p := range ps {
		if code := w.end(p); code != exitOK {
			t.Fatalf("exit code %d\n%s", code, p.err.String())
		}
		var r destination.Report
		if err := json.Unmarshal(p.out.Bytes(), &r); err != nil {
			t.Fatalf("%v: %s", err, p.out.String())
		}
		t.Logf("%d created, %d requests, %d bytes, %.1f s, %+v\n%s", r.Created, r.Requests, r.Bytes, r.Elapsed, r.Shared, p.err.String())
		all = append(all, r)
		if r.Created != 1501 || r.Shared == nil {
			t.Errorf("a process reports %d created, and %+v", r.Created, r.Shared)
			continue
		}
		own += r.Shared.Own
	}
	if all[0].Shared != nil && (all[0].Shared.Processes != 3 || own != 1501 || all[0].Shared.Coordinator > 1200) {
		t.Errorf("%+v, %d together", all[0].Shared, own)
	}
	w.check()
	if all[0].Elapsed < 0.85*1501/150 {
		t.Errorf("%.1f s for 1,501 resources, of which all processes together may fetch 150 a second", all[0].Elapsed)
	}
	if more := all[0].Requests - 1501; more > 20 { // such as those for documents
		t.Errorf("%d requests more than resources", more)
	}
	if more := w.src.total() - 1501; more > sentAhead {
		t.Errorf("%d requests were repeated", more)
	}
	text, err := os.ReadFile(events)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte("\n")); n != 1501 {
		t.Errorf("%d events", n)
	}
	if code, out := w.run(t, time.Minute, "audit", "-q", "--content", w.src.URL+"/resourcelist.xml", w.address(), "--state", w.state); code != exitOK {
		t.Errorf("audit: exit code %d\n%s", code, out)
	}
	w.src.reset()
	one, two := w.start("sync"), w.start("sync")
	for _, p := range []*sharer{one, two} {
		if code := w.end(p); code != exitOK || !strings.Contains(p.out.String(), "in step") {
			t.Errorf("the second run: exit code %d\n%s%s", code, p.out.String(), p.err.String())
		}
	}
	for path, n := range w.src.counts() {
		if n > 0 && !strings.HasSuffix(path, ".xml") {
			t.Errorf("%s was requested %d times by the second run", path, n)
		}
	}
}

// What cannot be shared is refused.
func TestSharedRefused(t *testing.T) {
	t.Parallel()
	b := newTestBucket(t) // does not support conditions for uploads in parts
	src := newCountingSource(t, 3)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{t.TempDir()}, "--shared is for mirrors in buckets"},
		{[]string{b.address(), "--state", t.TempDir()}, "--shared is for mirrors in buckets"},
		{[]string{b.address(), "--state", postgrestest.URL(t)}, "ignores conditions"},
		{[]string{"--config", "mirrors.yaml"}, "--shared and --config"},
	} {
		args := append([]string{"sync", src.URL + "/resourcelist.xml", "--shared"}, tt.args...)
		if tt.args[0] == "--config" {
			args = append([]string{"sync", "--shared"}, tt.args...)
		}
		if code, out := b.run(t, time.Minute, args...); code != exitUsage || !strings.Contains(out, tt.want) {
			t.Errorf("%s: exit code %d, %s", args, code, out)
		}
	}
}

// Processes are killed, stopped for longer than their lease, and cut off from the database, at
// random moments: the others
// complete the mirror, nothing is lost, and --exec is notified of each resource.
func TestSharedKill(t *testing.T) {
	t.Parallel()
	for i := range *sharedRuns {
		seed := uint64(i)
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			sharedKill(t, rand.New(rand.NewPCG(seed, 1)))
		})
	}
}

func sharedKill(t *testing.T, random *rand.Rand) {
	const n = 1200
	w := newSharedWorld(t, n)
	if p := w.start("sync", "-q"); w.end(p) != exitOK {
		t.Fatal(p.err.String())
	}
	// A tenth goes, and of the rest all but a few change: objects are replaced and removed.
	gone, changed := map[string]bool{}, 0
	for i, path := range slices.Sorted(maps.Keys(w.src.files)) {
		switch {
		case i%10 == 0:
			gone["/copies/"+w.dest+path] = true
			delete(w.src.files, path)
		case i%10 > 1:
			changed++
			w.src.files[path] = append([]byte("changed "), w.src.files[path]...)
		}
	}
	w.src.reset()
	var removed atomic.Int64
	w.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.Method == http.MethodPut:
			time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
		case r.Method == http.MethodDelete && gone[r.URL.Path], r.Method == http.MethodPost && r.URL.Query().Has("delete"):
			if removed.Add(1); w.src.total() < changed {
				t.Errorf("something is removed after %d of %d requests", w.src.total(), changed)
			}
		}
		return false
	})
	events := filepath.Join(t.TempDir(), "events")
	args := []string{"-q", "--rate", "150", "--exec", "cat >> " + events, "--log-level", "info"}
	db := newCutDatabase(t, w.state)
	state := w.state
	w.state = db.url // of the first
	ps := []*sharer{w.start("sync", args...)}
	w.state = state
	for range 2 {
		ps = append(ps, w.start("sync", args...))
	}
	wait := time.Duration(500+random.IntN(5000)) * time.Millisecond
	victim, kind := ps[random.IntN(3)], random.IntN(3)
	if kind == 2 { // a database that cannot be reached at the start is an error
		w.waitForProcesses(3)
	}
	time.Sleep(wait)
	// What has been reported is recorded, and is not requested again.
	reported := readURIs(t, events)
	before := w.src.counts()
	stopped := kind > 0
	if kind == 2 {
		victim = ps[0]
		db.cut()
		time.Sleep(time.Duration(9500+random.IntN(3000)) * time.Millisecond)
		db.mend()
	} else if stopped {
		if err := victim.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(9500+random.IntN(3000)) * time.Millisecond)
		if err := victim.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	} else if err := victim.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for i, p := range ps {
		if code := w.end(p); code != exitOK && (stopped || p != victim || code != -1) {
			t.Errorf("process %d: exit code %d\n%s", i, code, p.err.String())
		}
	}
	if t.Failed() {
		for i, p := range ps {
			t.Logf("process %d:\n%s", i, p.err.String())
		}
	}
	w.check()
	if removed.Load() == 0 {
		t.Error("nothing was removed")
	}
	after := w.src.counts()
	t.Logf("%d of %d resources were reported before; %d requests more than resources", len(reported), changed, w.src.total()-changed)
	again := 0 // one more each, at most: what no process had recorded
	for path, n := range after {
		if path == "/resourcelist.xml" {
			continue
		}
		if again += n - 1; reported[w.src.URL+path] && n > before[path] {
			t.Errorf("%s was recorded, and requested again", path)
		}
	}
	if most := changed - len(reported) + sentAhead; again > most {
		t.Errorf("%d requests were repeated, want at most %d", again, most)
	}
	if n := len(readURIs(t, events)); n != changed+len(gone) {
		t.Errorf("--exec was notified of %d resources, want %d", n, changed+len(gone))
	}
	w.src.reset()
	if p := w.start("sync"); w.end(p) != exitOK || !strings.Contains(p.out.String(), "in step") {
		t.Errorf("the next run: %s%s", p.out.String(), p.err.String())
	}
	w.check()
}

// A process whose turn it is while the database accepts no new connections for some seconds coordinates
// after that.
func TestSharedTurnRefused(t *testing.T) {
	t.Parallel()
	w := newSharedWorld(t, 100)
	first := w.start("sync", "-q", "--rate", "2")
	waitFor(t, "the process that coordinates", func() bool { return w.src.total() > 0 }) // the second one might be faster
	db := newCutDatabase(t, w.state)
	w.state = db.url
	second := w.start("sync", "-q", "--log-level", "info")
	waitFor(t, "a process that assists", func() bool { return strings.Contains(second.err.String(), "assisting another process") })
	db.refuse()
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the turn of the process", func() bool {
		return strings.Contains(second.err.String(), "look at the other processes") || len(second.ended) > 0
	})
	time.Sleep(time.Second)
	db.mend()
	if code := w.end(second); code != exitOK {
		t.Errorf("exit code %d\n%s", code, second.err.String())
	}
	w.check()
}

// readURIs returns the resources of the events in a file, which may not exist yet.
func readURIs(t *testing.T, file string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	uris := map[string]bool{}
	for line := range bytes.Lines(text) {
		var e struct{ URI string }
		if json.Unmarshal(line, &e) == nil {
			uris[e.URI] = true
		}
	}
	return uris
}

// A cutDatabase is a PostgreSQL server behind a connection that can be cut.
type cutDatabase struct {
	url string

	mu    sync.Mutex // guards what follows
	gone  bool
	conns []net.Conn
}

func newCutDatabase(t *testing.T, state string) *cutDatabase {
	t.Helper()
	u, err := url.Parse(state)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	dir, err := os.MkdirTemp("", "ls-pg-") // short: it holds a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // it has nothing else
	const socket = ".s.PGSQL.5432"
	real := filepath.Join(q.Get("host"), socket)
	q.Set("host", dir)
	u.RawQuery = q.Encode()
	l, err := net.Listen("unix", filepath.Join(dir, socket))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // nothing is sent any more
	db := &cutDatabase{url: u.String()}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("unix", real)
			db.mu.Lock()
			if db.gone || err != nil {
				_ = c.Close() // it is cut
				if err == nil {
					_ = s.Close()
				}
				db.mu.Unlock()
				continue
			}
			db.conns = append(db.conns, c, s)
			db.mu.Unlock()
			for _, pair := range [][2]net.Conn{{c, s}, {s, c}} {
				go func() {
					_, _ = io.Copy(pair[0], pair[1]) // until one of them ends
					_ = pair[0].Close()
				}()
			}
		}
	}()
	return db
}

// cut ends all connections and lets no new ones through.
func (db *cutDatabase) cut() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.gone = true
	for _, c := range db.conns {
		_ = c.Close() // as a cut does
	}
}

// refuse lets no new connections through.
func (db *cutDatabase) refuse() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.gone = true
}

// mend lets connections through again.
func (db *cutDatabase) mend() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.gone, db.conns = false, nil
}

// Several processes follow: one is notified, and when it is killed another one follows.
func TestSharedFollow(t *testing.T) {
	t.Parallel()
	m := newSharedMirror(t)
	m.Config.Handler = conditionalUploads(m.Config.Handler)
	follow := func() *exec.Cmd {
		c := sharingCommand(t, "follow", m.src.base, m.address(), "--state", m.state, "--shared", "--max-delete", "100", "--poll", "100ms", "--admin", "off")
		c.Env = append(c.Environ(), "XDG_STATE_HOME="+t.TempDir())
		for name, value := range bucketEnv(m.URL) {
			c.Env = append(c.Env, name+"="+value)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = c.Process.Kill()
			_ = c.Wait() // it was killed
		})
		return c
	}
	first := follow()
	waitFor(t, "the first sync", func() bool { return len(m.objects(t)) >= 40 })
	follow()
	m.write("new", "by the first")
	waitFor(t, "what the first process has written", func() bool { return m.objects(t)["new"] == "by the first" })
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	m.write("new", "by the second")
	if err := os.Remove(filepath.Join(m.dir, "d1", "file 1")); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "what the second process has written", func() bool {
		got := m.objects(t)
		_, left := got["d1/file%201"]
		return got["new"] == "by the second" && !left
	})
	d := time.Since(start)
	t.Logf("the second process followed %v after the first was killed", d.Round(time.Millisecond))
	if *sharedRuns > 2 && d > 10*time.Second { // in the long form, beside which nothing else runs
		t.Errorf("that took too long")
	}
	if out := m.on(t.TempDir(), exitFailed, m.sync()...); !strings.Contains(out, "follow on ") {
		t.Errorf("a process that does not share: %s", out)
	}
}
