//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"lockstep/blob/s3/s3test"
	"lockstep/storage/postgres/postgrestest"
)

const sharedSets = "sets:\n  - {from: api, change_list: {entries: 200}}\n"

// A sharedFault is what happens to the process that publishes.
type sharedFault struct {
	name  string
	limit time.Duration // until another process publishes
}

// strike has the fault happen to a process, and returns what ends it.
func (f *sharedFault) strike(s *sharedSource, p *process) (end func()) {
	s.Helper()
	switch f.name {
	case "kill":
		p.kill()
	case "pause":
		if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			s.Fatal(err)
		}
		s.mu.Lock()
		s.down[p] = time.Now().Add(time.Hour) // as a balancer finds out; authors go on to try it
		s.mu.Unlock()
		return func() {
			s.mu.Lock()
			delete(s.down, p)
			s.mu.Unlock()
			if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
				s.Fatal(err)
			}
		}
	case "stop":
		if code, err := p.end(syscall.SIGTERM); err != nil || code != exitOK {
			s.Fatalf("ended with %d, %v\n%s", code, err, p.stderr)
		}
	}
	s.leave(p)
	return func() { s.start() }
}

// TestShared: three processes are one Source, whichever of them is killed, paused or stopped. A reader
// finds all documents all the time, and no generation goes back; what was acknowledged is
// published once, in its order; another process publishes, in the long form within 10 s, and at once after
// a clean stop.
func TestShared(t *testing.T) {
	t.Parallel()
	s := newSharedSource(t, asTheyAre, sharedSets)
	for range 3 {
		s.start()
	}
	const uri = "http://elsewhere.example/"
	s.written(func() string { return s.balancer.URL + "/" }, uri+"first", "first")
	s.listed(uri+"first", "first")
	reader := crawlAll(s.balancer.URL + "/")
	stop, authors, wrote := make(chan struct{}), []*author{{name: "a"}, {name: "b"}}, make(chan error, 2)
	for _, a := range authors {
		go func() { wrote <- a.work(s, stop) }()
	}
	for round := range *sharedFaults {
		for _, f := range []sharedFault{{"kill", 10 * time.Second}, {"pause", 10 * time.Second}, {"stop", 3 * time.Second}} {
			publisher := s.publisher()
			other := s.standby(publisher)
			text := fmt.Sprint(f.name, round)
			stream := s.stream(publisher)
			began := time.Now()
			end := f.strike(s, publisher)
			if f.name == "stop" {
				t.Logf("stop: ended after %v", time.Since(began).Round(time.Millisecond))
				began = time.Now() // the process has finished what it was doing
			}
			s.written(func() string { return other.address }, uri+text, text)
			acknowledged := time.Since(began)
			published := s.listed(uri+text, text).Sub(began)
			t.Logf("%s: acknowledged after %v, published after %v", f.name, acknowledged.Round(time.Millisecond), published.Round(time.Millisecond))
			if *sharedFaults > 1 { // other tests run beside the short form
				if published > f.limit {
					t.Errorf("%s: published after %v, want %v at most", f.name, published, f.limit)
				}
				if late := published - acknowledged; late > 2*time.Second {
					t.Errorf("%s: published %v after it was acknowledged", f.name, late)
				}
			}
			end()
			select {
			case <-stream:
			case <-time.After(readyLimit):
				t.Errorf("%s: a stream of events does not end", f.name)
			}
			time.Sleep(time.Duration(rand.IntN(1000)) * time.Millisecond)
		}
	}
	close(stop)
	for range authors {
		if err := <-wrote; err != nil {
			t.Error(err)
		}
	}
	s.written(func() string { return s.balancer.URL + "/" }, uri+"last", "last")
	s.listed(uri+"last", "last")
	reader.end(t)
	c, err := crawlSource(s.balancer.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, a := range authors {
		if err := a.check(c.events); err != nil {
			t.Error(err)
		}
		for _, last := range a.last {
			n += last
		}
	}
	t.Logf("%d changes were acknowledged, all documents were read %d times", n, reader.reads.Load())
	if t.Failed() {
		for _, p := range s.running() {
			t.Logf("%s\n%s", p.out, p.stderr)
		}
	}
}

// TestSharedDatabaseRestart: when the database is restarted, documents are served all the time, and
// nothing is lost that was acknowledged.
func TestSharedDatabaseRestart(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	s := newSharedSourceIn(t, server.URL, asTheyAre, sharedSets)
	s.start()
	s.start()
	const uri = "http://elsewhere.example/"
	balancer := func() string { return s.balancer.URL + "/" }
	s.written(balancer, uri+"first", "first")
	s.listed(uri+"first", "first")
	reader := crawlAll(balancer())
	a, stop, wrote := &author{name: "a"}, make(chan struct{}), make(chan error, 1)
	go func() { wrote <- a.work(s, stop) }()
	for i := range 2 {
		reads := reader.reads.Load()
		server.Restart(t)
		text := fmt.Sprint("after ", i)
		s.written(balancer, uri+"restarted", text)
		s.listed(uri+"restarted", text)
		if reader.reads.Load() == reads {
			t.Error("nothing could be read")
		}
	}
	close(stop)
	if err := <-wrote; err != nil {
		t.Error(err)
	}
	s.written(balancer, uri+"last", "last")
	s.listed(uri+"last", "last")
	reader.end(t)
	c, err := crawlSource(balancer())
	if err == nil {
		err = a.check(c.events)
	}
	if err != nil {
		t.Error(err)
	}
}

// TestSharedTermFails: a publisher whose term ends with an error does not exit. It serves as a standby, and
// publishes again.
func TestSharedTermFails(t *testing.T) {
	t.Parallel()
	var newer atomic.Bool // what hubs were sent seems to be written by a newer version
	s := newSharedSource(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || !newer.Load() || !strings.HasSuffix(r.URL.Path, ".notify.json") {
				next.ServeHTTP(w, r)
				return
			}
			w.Header().Set("ETag", `"1"`)
			http.ServeContent(w, r, "", time.Now(), strings.NewReader(`{"version":99}`))
		})
	}, sharedSets)
	newer.Store(true)
	p := s.start()
	within(t, "the process becomes a standby", func() bool { return strings.Contains(p.stderr.String(), "this process is a standby now") })
	newer.Store(false)
	const uri = "http://elsewhere.example/"
	s.written(func() string { return s.balancer.URL + "/" }, uri+"first", "first")
	s.listed(uri+"first", "first")
	if !strings.Contains(p.stderr.String(), "written by a newer version") {
		t.Errorf("the process says\n%s", p.stderr)
	}
}

// A latePut holds back a request that a process sends before it is killed.
type latePut struct {
	suffix string // of its path

	mu       sync.Mutex // guards what follows
	armed    bool
	overtake bool          // the next write of the same object lets it pass first
	held     chan struct{} // closed when it is held back
	release  chan struct{} // closed when it may pass
	passed   chan int      // receives the status of its answer
}

func (l *latePut) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut || !strings.HasSuffix(r.URL.Path, l.suffix) {
			next.ServeHTTP(w, r)
			return
		}
		l.mu.Lock()
		hold := l.armed
		l.armed = false
		overtake := !hold && l.overtake
		if overtake {
			l.overtake = false
		}
		l.mu.Unlock()
		if overtake {
			close(l.release)
			l.passed <- <-l.passed
		}
		if !hold {
			next.ServeHTTP(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		late := r.Clone(context.WithoutCancel(r.Context()))
		late.Body = io.NopCloser(bytes.NewReader(body))
		close(l.held)
		<-l.release
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, late)
		l.passed <- answer.Code
	})
}

// TestSharedLate: a write of a process that was killed, which arrives when another process publishes,
// replaces nothing that this one has written. If it arrives before, the other one notices, and
// continues from it.
func TestSharedLate(t *testing.T) {
	t.Parallel()
	suffixes := []string{"/changelist.xml", "/resourcelist.xml", "/main.json"}
	if *sharedFaults == 1 {
		suffixes = suffixes[:1]
	}
	for _, suffix := range suffixes {
		for _, before := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s before=%t", suffix[1:], before), func(t *testing.T) {
				t.Parallel()
				l := &latePut{suffix: suffix, held: make(chan struct{}), release: make(chan struct{}), passed: make(chan int, 1)}
				s := newSharedSource(t, l.wrap, sharedSets)
				s.start()
				s.start()
				const uri = "http://elsewhere.example/"
				balancer := func() string { return s.balancer.URL + "/" }
				s.written(balancer, uri+"first", "first")
				s.listed(uri+"first", "first")
				reader := crawlAll(balancer())
				publisher := s.publisher()
				l.mu.Lock()
				l.armed = true
				l.mu.Unlock()
				s.written(balancer, uri+"late", "late")
				select {
				case <-l.held:
				case <-time.After(readyLimit):
					t.Fatal("the document is not written")
				}
				l.mu.Lock()
				l.overtake = before
				l.mu.Unlock()
				publisher.kill()
				s.leave(publisher)
				s.written(balancer, uri+"next", "next")
				s.listed(uri+"next", "next")
				if !before {
					close(l.release)
				}
				status := <-l.passed
				if want := map[bool]int{true: http.StatusOK, false: http.StatusPreconditionFailed}[before]; status != want {
					t.Errorf("the late write is answered with %d, want %d", status, want)
				}
				for i := range 3 {
					text := fmt.Sprint("after ", i)
					s.written(balancer, uri+"late", text)
					s.listed(uri+"late", text)
				}
				reader.end(t)
				said := s.running()[0].stderr.String()
				if conflict := strings.Contains(said, "another process has changed it"); conflict != before {
					t.Errorf("the successor says\n%s", said)
				}
			})
		}
	}
}

// TestSharedRefusals: what cannot be shared is refused, with a remedy.
func TestSharedRefusals(t *testing.T) {
	t.Parallel()
	s := newSharedSource(t, asTheyAre, sharedSets)
	service := httptest.NewServer(s3test.Unconditional(gofakes3.New(s3mem.New(), gofakes3.WithAutoBucket(true)).Server()))
	t.Cleanup(service.Close)
	run := func(args ...string) (int, string) {
		t.Helper()
		cmd := exec.Command("lockstep", append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
		cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+s.home)
		for name, value := range bucketEnv(service.URL) {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		out, err := cmd.CombinedOutput()
		code, err := exitCodeOf(err)
		if err != nil {
			t.Fatal(err)
		}
		return code, string(out)
	}
	for want, args := range map[string][]string{
		"the service ignores conditions of write requests":   {"--config", s.config},
		"the state in " + s.home + " is that of one process": {"api:", "--shared", "--state", s.home, "--base-url", "http://x.example/"},
		"the documents must be in a bucket":                  {"api:", "--shared", "--state", s.database, "--base-url", "http://x.example/"},
		"the contents must be in a bucket":                   {"--config", s.config, "--contents", s.home},
		"--shared-at needs --shared":                         {"api:", "--shared-at", "x:80"},
	} {
		if code, out := run(args...); code == exitOK || !strings.Contains(out, want) || !strings.Contains(out, "hint: ") && !strings.Contains(out, "needs") {
			t.Errorf("%v: exit code %d\n%s", args, code, out)
		}
	}
}

// TestSharedStandby: a standby answers as the process that publishes does; what only that can answer, it
// has from there. After the other one has stopped it publishes what has changed meanwhile.
func TestSharedStandby(t *testing.T) {
	t.Parallel()
	s := newSharedSource(t, asTheyAre, "hub: embedded\noai_pmh: true\noai_admin: admin@example.org\nsets:\n  - {name: files, from: dir:files, uri: BASE/files/}\n  - {name: items, from: api, uri: http://elsewhere.example/}\n")
	text, err := os.ReadFile(s.config)
	if err == nil {
		err = os.WriteFile(s.config, bytes.ReplaceAll(text, []byte("BASE"), []byte(s.balancer.URL)), 0o600)
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(s.home, "files"), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	file := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(s.home, "files", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file("a.txt", "first")
	publisher, standby := s.start(), s.start()
	ask := func(p *process, method, path, body string, header ...string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, p.address+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range header {
			name, value, _ := strings.Cut(h, ": ")
			req.Header.Set(name, value)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	const form, token = "Content-Type: application/x-www-form-urlencoded", "Authorization: Bearer secret"
	for _, r := range []struct {
		method, path, body string
		header             []string
		status             int
		want               string
	}{
		{"GET", "-/readyz", "", nil, 200, "ok"},
		{"GET", "", "", nil, 200, "1 resource"},
		{"GET", ".well-known/resourcesync", "", nil, 200, "resourcesync/files/capabilitylist.xml"},
		{"GET", "resourcesync/items/capabilitylist.xml", "", nil, 200, `rel="hub"`},
		{"GET", "resourcesync/files/resourcelist.xml", "", nil, 200, "/files/a.txt"},
		{"GET", "files/a.txt", "", nil, 200, "first"},
		{"GET", "oai?verb=ListRecords&metadataPrefix=oai_dc&set=files", "", nil, 200, "/files/a.txt"},
		{"POST", "resourcesync/files/dump", s.balancer.URL + "/files/a.txt\n", []string{"Content-Type: text/plain"}, 200, "manifest.xml"},
		{"GET", "-/api/v1/sets/items", "", []string{token}, 200, `"resources":0`},
		{"GET", "-/api/v1/sets/items", "", nil, 401, "want a token"},
		{"GET", "-/api/v1/sets/items", "", []string{token, "Lockstep-Forwarded: term 192.0.2.1:1 code"}, 503, "no longer publishes"},
		{"POST", "hub", "hub.mode=subscribe", []string{form}, 400, "hub.topic"},
		{"GET", "none", "", nil, 404, ""},
	} {
		status, text := ask(standby, r.method, r.path, r.body, r.header...)
		for end := time.Now().Add(readyLimit); status == http.StatusServiceUnavailable && status != r.status && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			status, text = ask(standby, r.method, r.path, r.body, r.header...) // the hub is loading
		}
		if status != r.status || !strings.Contains(text, r.want) {
			t.Errorf("%s /%s is answered with %d\n%.500s\nwant %d and %s", r.method, r.path, status, text, r.status, r.want)
		}
	}
	out, err := exec.CommandContext(t.Context(), "lockstep", "status", "--admin", "unix:"+standby.admin).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("standby; serve on ")) {
		t.Errorf("status of a standby: %v\n%s", err, out)
	}

	overSocket := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", standby.admin)
	}}}
	put, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://socket/-/api/v1/sets/items/resources?uri=http://elsewhere.example/x", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	put.Header.Set("Content-Type", "application/json")
	if answer, err := overSocket.Do(put); err != nil || answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a write through the admin socket of a standby: %v, %v", answer, err)
	} else {
		_ = answer.Body.Close()
	}

	// Notifications as a stream.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, standby.address+"resourcesync/items/changes", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	events := make(chan string, 1)
	go func() {
		var seen strings.Builder
		buf := make([]byte, 4096)
		for !strings.Contains(seen.String(), "elsewhere.example/new") {
			n, err := resp.Body.Read(buf)
			seen.Write(buf[:n])
			if err != nil {
				break
			}
		}
		events <- seen.String()
	}()
	if status, text := ask(standby, "PUT", "-/api/v1/sets/items/resources?uri=http://elsewhere.example/new", `{"length":1}`, token, "Content-Type: application/json"); status != http.StatusCreated {
		t.Errorf("a resource is written with %d %s", status, text)
	}
	select {
	case seen := <-events:
		if !strings.Contains(seen, "elsewhere.example/new") {
			t.Errorf("the stream has\n%s", seen)
		}
	case <-time.After(readyLimit):
		t.Error("the stream has no event")
	}

	if code, err := publisher.end(syscall.SIGTERM); err != nil || code != exitOK {
		t.Fatalf("ended with %d, %v\n%s", code, err, publisher.stderr)
	}
	s.leave(publisher)
	file("b.txt", "second")
	waitForListed(t, standby.address, "files", "b.txt")
	if status, text := ask(standby, "PUT", "-/api/v1/sets/items/resources?uri=http://elsewhere.example/newer", `{"length":1}`, token, "Content-Type: application/json"); status != http.StatusCreated {
		t.Errorf("a resource is written with %d %s", status, text)
	}
	waitForListed(t, standby.address, "items", "http://elsewhere.example/newer")
}
