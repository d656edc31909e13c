//go:build unix

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
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

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"lockstep/blob/s3/s3test"
	"lockstep/internal/freeport"
	"lockstep/storage/postgres/postgrestest"
)

var sharedFaults = flag.Int("shared-faults", 1, "how often TestShared kills, pauses and stops a publisher, each")

// sharedBuckets starts a service for buckets that honors conditions, behind wrap: versitygw, or one in
// memory where that is not installed.
func sharedBuckets(t *testing.T, wrap func(http.Handler) http.Handler) (endpoint string) {
	t.Helper()
	var service http.Handler
	if program, err := exec.LookPath("versitygw"); err == nil {
		service = startVersity(t, program)
	} else {
		service = s3test.Conditional(gofakes3.New(s3mem.New(), gofakes3.WithAutoBucket(true)).Server())
	}
	srv := httptest.NewServer(wrap(service))
	t.Cleanup(srv.Close)
	return srv.URL
}

// startVersity starts versitygw with a bucket.
func startVersity(t *testing.T, program string) http.Handler {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "www"), 0o755); err != nil {
		t.Fatal(err)
	}
	address, err := freeport.Address(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--port", address, "--access", "test", "--secret", "secret", "--quiet", "--keep-alive", "posix", dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has no other task
		_ = cmd.Wait()         // it was killed
	})
	for range 200 {
		if resp, err := http.Get("http://" + address); err == nil {
			_ = resp.Body.Close()
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return &httputil.ReverseProxy{ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(p *httputil.ProxyRequest) {
		p.Out.URL.Scheme, p.Out.URL.Host = "http", address
		p.Out.Host = p.In.Host // it is signed
	}}
}

// asTheyAre wraps a service in nothing.
func asTheyAre(h http.Handler) http.Handler { return h }

// A sharedSource is a Source of several processes behind a load balancer.
type sharedSource struct {
	*testing.T
	database, endpoint string
	config             string
	home               string
	balancer           *httptest.Server

	mu        sync.Mutex // guards what follows
	processes []*process
	down      map[*process]time.Time // when the balancer found that a process does not answer
}

// newSharedSource returns a Source whose processes are to be started. Its service for buckets is
// behind wrap; more is added to its configuration.
func newSharedSource(t *testing.T, wrap func(http.Handler) http.Handler, more string) *sharedSource {
	t.Helper()
	return newSharedSourceIn(t, postgrestest.URL(t), wrap, more)
}

// newSharedSourceIn does so with a database.
func newSharedSourceIn(t *testing.T, database string, wrap func(http.Handler) http.Handler, more string) *sharedSource {
	t.Helper()
	s := &sharedSource{T: t, database: database, endpoint: sharedBuckets(t, wrap), home: t.TempDir(), down: map[*process]time.Time{}}
	s.balancer = httptest.NewServer(http.HandlerFunc(s.balance))
	t.Cleanup(s.balancer.Close)
	s.config = filepath.Join(s.home, "site.yaml")
	text := fmt.Sprintf("shared: true\nstate: %q\ndocuments: s3://www/source\nbase_url: %s/\nlisten: 127.0.0.1:0\napi_token_file: token\n", s.database, s.balancer.URL) + more
	for name, text := range map[string]string{"site.yaml": text, "token": "secret\n"} {
		if err := os.WriteFile(filepath.Join(s.home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// start starts another process.
func (s *sharedSource) start(args ...string) *process {
	s.Helper()
	if err := s.tryStart(args...); err != nil {
		s.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.processes[len(s.processes)-1]
}

// tryStart starts another process, and returns why it does not run.
func (s *sharedSource) tryStart(args ...string) error {
	cmd := exec.Command("lockstep", append([]string{"serve", "--config", s.config}, args...)...)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+s.home)
	for name, value := range bucketEnv(s.endpoint) {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	p, err := startReady(cmd)
	if err != nil {
		return err
	}
	s.Cleanup(p.kill)
	for _, line := range strings.Split(p.out.String(), "\n") {
		if at, ok := strings.CutPrefix(line, "  listening at     "); ok {
			p.address = "http://" + at + "/" // which is not that of the Source
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processes = append(s.processes, p)
	return nil
}

// leave takes a process that has ended from the balancer.
func (s *sharedSource) leave(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processes = slices.DeleteFunc(s.processes, func(other *process) bool { return other == p })
}

// running returns the processes in random order, those last that did not answer a short time ago.
func (s *sharedSource) running() []*process {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.processes)
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	slices.SortStableFunc(all, func(a, b *process) int {
		return cmp.Compare(min(time.Since(s.down[b])/downTime, 1), min(time.Since(s.down[a])/downTime, 1))
	})
	return all
}

const (
	tryTime  = time.Second     // how long the balancer waits for a process
	downTime = 5 * time.Second // how long it tries others first
)

// balance answers a request as load balancers do: a process that cannot be reached is passed over.
func (s *sharedSource) balance(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	for _, p := range s.running() {
		ctx, cancel := context.WithTimeout(r.Context(), tryTime)
		req, _ := http.NewRequestWithContext(ctx, r.Method, strings.TrimSuffix(p.address, "/")+r.URL.RequestURI(), bytes.NewReader(body))
		req.Header = r.Header.Clone()
		resp, err := http.DefaultTransport.RoundTrip(req)
		var text []byte
		if err == nil {
			text, err = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
		}
		cancel()
		if err != nil {
			s.mu.Lock()
			s.down[p] = time.Now()
			s.mu.Unlock()
			continue
		}
		for name, values := range resp.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(resp.StatusCode)
		_, _ = w.Write(text)
		return
	}
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
}

// write changes a resource through a process, as often as it takes, and returns whether it was
// replayed.
func (s *sharedSource) write(address, uri, key, text string) error {
	target := address + "-/api/v1/sets/main/resources?uri=" + url.QueryEscape(uri)
	method, body := http.MethodPut, fmt.Sprintf(`{"length":%d,"hash":{"sha-256":"%s"}}`, len(text), strings.Fields(digest(text))[1])
	if text == "" {
		method, body = http.MethodDelete, ""
	}
	req, err := http.NewRequestWithContext(s.Context(), method, target, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer secret")
	req.Header.Set("Idempotency-Key", key)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	client := http.Client{Timeout: 10 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("%w: %w", errDown, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, _ := io.ReadAll(resp.Body)
	switch {
	case resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") == "":
		return fmt.Errorf("write %s: %s without Retry-After: %s", uri, resp.Status, answer)
	case resp.StatusCode >= http.StatusInternalServerError, resp.StatusCode == http.StatusConflict: // an attempt before is being carried out
		return fmt.Errorf("%w: %s: %s", errDown, resp.Status, answer)
	case resp.StatusCode >= http.StatusMultipleChoices:
		return fmt.Errorf("write %s: %s: %s", uri, resp.Status, answer)
	}
	return nil
}

// written writes until it is acknowledged.
func (s *sharedSource) written(address func() string, uri, text string) {
	s.Helper()
	key := fmt.Sprintf("%d", rand.Uint64())
	for end := time.Now().Add(readyLimit); ; time.Sleep(50 * time.Millisecond) {
		err := s.write(address(), uri, key, text)
		if err == nil {
			return
		}
		if !errors.Is(err, errDown) || time.Now().After(end) {
			s.Fatal(err)
		}
	}
}

// listed waits until the Source states that a resource has a content, and returns when it did.
func (s *sharedSource) listed(uri, text string) time.Time {
	s.Helper()
	for end := time.Now().Add(readyLimit); ; time.Sleep(20 * time.Millisecond) {
		c, err := crawlSource(s.balancer.URL + "/")
		if err == nil && c.state[uri] == digest(text) {
			return time.Now()
		}
		if err != nil && !errors.Is(err, errDown) {
			s.Fatal(err)
		}
		if time.Now().After(end) {
			s.Fatalf("%s is not published", uri)
		}
	}
}

// publisher returns the process that publishes, once there is one.
func (s *sharedSource) publisher() *process {
	s.Helper()
	for end := time.Now().Add(readyLimit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		for _, p := range s.running() {
			out, err := exec.CommandContext(s.Context(), "lockstep", "status", "--admin", "unix:"+p.admin).CombinedOutput()
			if err == nil && !bytes.Contains(out, []byte("standby")) {
				return p
			}
		}
	}
	s.Fatal("no process publishes")
	return nil
}

// standby returns one that does not.
func (s *sharedSource) standby(publisher *process) *process {
	for _, p := range s.running() {
		if p != publisher {
			return p
		}
	}
	s.Fatal("no process is a standby")
	return nil
}

// stream opens a stream of events, and returns a channel that is closed when it has ended.
func (s *sharedSource) stream(p *process) <-chan struct{} {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), http.MethodGet, p.address+"resourcesync/main/changes", nil)
	if err != nil {
		s.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, resp.Body) // until it ends, however it does
		_ = resp.Body.Close()
	}()
	return ended
}

// A crawling reads all documents of a Source all the time.
type crawling struct {
	stop  chan struct{}
	done  chan error
	reads atomic.Int64
}

// crawlAll crawls until stopped, and fails for what must never be: documents that are named and
// missing, or older than those that were there before.
func crawlAll(base string) *crawling {
	c := &crawling{stop: make(chan struct{}), done: make(chan error, 1)}
	go func() { c.done <- c.run(base) }()
	return c
}

func (c *crawling) run(base string) error {
	var at, from, last time.Time
	for {
		select {
		case <-c.stop:
			return nil
		default:
		}
		now, err := crawlSource(base)
		if errors.Is(err, errDown) {
			continue
		}
		if err != nil {
			return err
		}
		if now.at.Before(at) || now.from.Before(from) {
			return fmt.Errorf("the Resource List goes back from %s to %s, or the Change List begins at %s after it did at %s", at, now.at, now.from, from)
		}
		at, from = now.at, now.from
		if n := len(now.events); n > 0 {
			if now.events[n-1].at.Before(last) {
				return fmt.Errorf("the Change List ended at %s, and ends at %s", last, now.events[n-1].at)
			}
			last = now.events[n-1].at
		}
		c.reads.Add(1)
	}
}

// end ends the crawling.
func (c *crawling) end(t testing.TB) {
	t.Helper()
	close(c.stop)
	if err := <-c.done; err != nil {
		t.Error(err)
	}
	if c.reads.Load() == 0 {
		t.Error("nothing was read")
	}
}

// An author changes resources of its own through all processes, and remembers what was acknowledged.
type author struct {
	name string
	last map[string]int // by URI
}

// textOf is the n-th content of a resource.
func textOf(uri string, n int) string { return fmt.Sprint(uri, " ", n) }

// work writes until stop is closed. Each write is repeated, through any process, until it is acknowledged.
func (a *author) work(s *sharedSource, stop <-chan struct{}) error {
	a.last = map[string]int{}
	for i := 0; ; i++ {
		uri := fmt.Sprintf("http://elsewhere.example/%s/%d", a.name, i%3)
		for {
			select {
			case <-stop:
				return nil
			case <-time.After(30 * time.Millisecond):
			}
			n := a.last[uri] + 1
			err := s.write(s.running()[0].address, uri, fmt.Sprint(a.name, i), textOf(uri, n))
			if err == nil {
				a.last[uri] = n
				break
			}
			if !errors.Is(err, errDown) {
				return err
			}
		}
	}
}

// check compares what was published with what was acknowledged: each content once, in its order. One
// more may have been written whose acknowledgment was lost.
func (a *author) check(events []changeEvent) error {
	for uri, last := range a.last {
		next := 0
		for _, e := range events {
			if e.uri != uri {
				continue
			}
			if next == 0 { // the first one in the Change List may be a later one
				for next = 1; next <= last+1 && digest(textOf(uri, next)) != e.digest; {
					next++
				}
			}
			if e.digest != digest(textOf(uri, next)) {
				return fmt.Errorf("%s: a change is not its content number %d", uri, next)
			}
			next++
		}
		if next != 0 && next <= last {
			return fmt.Errorf("%s: content number %d was acknowledged, and number %d is the last that is published", uri, last, next-1)
		}
	}
	return nil
}

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
// published once, in its order; another process publishes within 10 s, and at once after a clean stop.
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
	busy := time.Duration(6) // other tests run beside this one; the long form has the figures that we promise
	if *sharedFaults > 1 {
		busy = 1
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
			if published > f.limit*busy {
				t.Errorf("%s: published after %v, want %v at most", f.name, published, f.limit)
			}
			if late := published - acknowledged; late > 2*time.Second*busy {
				t.Errorf("%s: published %v after it was acknowledged", f.name, late)
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
