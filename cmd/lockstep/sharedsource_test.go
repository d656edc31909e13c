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
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"lockstep/blob/s3/s3test"
	"lockstep/internal/freeport"
	"lockstep/storage/postgres/postgrestest"
)

var (
	sharedFaults   = flag.Int("shared-faults", 1, "how often TestShared kills, pauses and stops a publisher, each")
	sharedTroubles = flag.Int("shared-troubles", 1, "how often each trouble of a database and of a bucket happens to processes that share them")
)

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
	within(t, "versitygw answers", func() bool {
		resp, err := http.Get("http://" + address)
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil
	})
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

	passing error // what readers may find for a moment, in addition to errDown
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
	cmd := sharingCommand(s.T, append([]string{"serve", "--config", s.config}, args...)...)
	cmd.Env = append(cmd.Environ(), "XDG_STATE_HOME="+s.home)
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
	for end := time.Now().Add(downTime); len(s.running()) == 0 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond) // one that has just started has not been announced
	}
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
		if err != nil && !errors.Is(err, errDown) && !errors.Is(err, s.passing) {
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
	stop    chan struct{}
	done    chan error
	reads   atomic.Int64
	passing error // what may be found for a moment, in addition to errDown
}

// crawlAll crawls until stopped, and fails for what must never be: documents that are named and
// missing, or older than those that were there before.
func crawlAll(base string) *crawling { return crawlExcept(base, errDown) }

// crawlExcept does not fail for what may be found for a moment.
func crawlExcept(base string, passing error) *crawling {
	c := &crawling{stop: make(chan struct{}), done: make(chan error, 1), passing: passing}
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
		if errors.Is(err, errDown) || errors.Is(err, c.passing) {
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
		numbers := map[string]int{} // by digest
		for n := 1; n <= last+1; n++ {
			numbers[digest(textOf(uri, n))] = n
		}
		var published []int // the first one in the Change List may be a later one
		for _, e := range events {
			if e.uri == uri {
				published = append(published, numbers[e.digest])
			}
		}
		for i, n := range published {
			if n == 0 || i > 0 && n != published[i-1]+1 {
				return fmt.Errorf("%s: the contents %v are published, and %d were acknowledged", uri, published, last)
			}
		}
		if n := len(published); n > 0 && published[n-1] < last {
			return fmt.Errorf("%s: content number %d was acknowledged, and number %d is the last that is published", uri, last, published[n-1])
		}
	}
	return nil
}
