//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
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

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"lockstep/blob/s3/s3test"
	"lockstep/internal/freeport"
	"lockstep/storage/postgres/postgrestest"
)

var sharedFaults = flag.Int("shared-faults", 1, "how often TestShared kills, pauses and stops a publisher, each")

// sharedBuckets starts a service for buckets that honors conditions: versitygw, or one in memory where that
// is not installed.
func sharedBuckets(t *testing.T) (endpoint string) {
	t.Helper()
	program, err := exec.LookPath("versitygw")
	if err != nil {
		srv := httptest.NewServer(s3test.Conditional(gofakes3.New(s3mem.New(), gofakes3.WithAutoBucket(true)).Server()))
		t.Cleanup(srv.Close)
		return srv.URL
	}
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
	return "http://" + address
}

// A sharedSource is a Source of several processes behind a load balancer.
type sharedSource struct {
	*testing.T
	database, endpoint string
	config             string
	home               string
	balancer           *httptest.Server

	mu        sync.Mutex // guards processes
	processes []*process
}

// newSharedSource returns a Source whose processes are to be started. more is added to its
// configuration.
func newSharedSource(t *testing.T, more string) *sharedSource {
	t.Helper()
	s := &sharedSource{T: t, database: postgrestest.URL(t), endpoint: sharedBuckets(t), home: t.TempDir()}
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
func (s *sharedSource) start() *process {
	s.Helper()
	cmd := exec.Command("lockstep", "serve", "--config", s.config)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+s.home)
	for name, value := range bucketEnv(s.endpoint) {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	p, err := startReady(cmd)
	if err != nil {
		s.Fatal(err)
	}
	p.address = s.listener(p)
	s.Cleanup(p.kill)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processes = append(s.processes, p)
	return p
}

// listener returns the address of a process, which is not that of the Source.
func (s *sharedSource) listener(p *process) string {
	s.Helper()
	for _, line := range strings.Split(p.out.String(), "\n") {
		if at, ok := strings.CutPrefix(line, "  listening at     "); ok {
			return "http://" + at + "/"
		}
	}
	s.Fatalf("no listener in\n%s", p.out)
	return ""
}

// leave takes a process that has ended from the balancer.
func (s *sharedSource) leave(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processes = slices.DeleteFunc(s.processes, func(other *process) bool { return other == p })
}

// running returns the processes in random order.
func (s *sharedSource) running() []*process {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.processes)
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// tryTime is how long the balancer waits for a process.
const tryTime = 2 * time.Second

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
	case resp.StatusCode >= http.StatusInternalServerError:
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

const sharedSets = "sets:\n  - {from: api, change_list: {entries: 10}}\n"

// TestShared: three processes are one Source, whichever of them is killed, paused or stopped. A reader
// finds all documents all the time, and no generation goes back; what was acknowledged is
// published; another process publishes within 10 s, and at once after a clean stop.
func TestShared(t *testing.T) {
	t.Parallel()
	s := newSharedSource(t, sharedSets)
	for range 3 {
		s.start()
	}
	const uri = "http://elsewhere.example/"
	s.written(func() string { return s.balancer.URL + "/" }, uri+"first", "first")
	s.listed(uri+"first", "first")
	reader := crawlAll(s.balancer.URL + "/")
	n := 0
	for range *sharedFaults {
		for _, fault := range []string{"kill", "pause", "stop"} {
			n++
			publisher := s.publisher()
			other := s.standby(publisher)
			text := fmt.Sprint(fault, n)
			began := time.Now()
			switch fault {
			case "kill":
				publisher.kill()
				s.leave(publisher)
			case "pause":
				if err := publisher.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			case "stop":
				if code, err := publisher.end(syscall.SIGTERM); err != nil || code != exitOK {
					t.Fatalf("ended with %d, %v\n%s", code, err, publisher.stderr)
				}
				s.leave(publisher)
			}
			s.written(func() string { return other.address }, uri+text, text)
			acknowledged := time.Since(began)
			published := s.listed(uri+text, text).Sub(began)
			t.Logf("%s: acknowledged after %v, published after %v", fault, acknowledged.Round(time.Millisecond), published.Round(time.Millisecond))
			if limit := map[string]time.Duration{"stop": 5 * time.Second}[fault]; published > max(limit, 10*time.Second) || limit > 0 && published > limit {
				t.Errorf("%s: published after %v", fault, published)
			}
			if fault == "pause" {
				if err := publisher.cmd.Process.Signal(syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
				for i := range 10 {
					text := fmt.Sprint("after ", n, i)
					s.written(func() string { return publisher.address }, uri+"paused", text)
					s.listed(uri+"paused", text)
				}
				continue
			}
			s.start()
		}
	}
	reader.end(t)
	for _, p := range s.running() {
		t.Logf("%s\n%s", p.out, p.stderr)
	}
}
