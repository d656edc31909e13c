//go:build linux

package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	apiResources = flag.Int("api.resources", 100_000, "resources there are before the changes")
	apiRate      = flag.Int("api.rate", 1000, "changes a second asked for")
	apiTime      = flag.Duration("api.time", time.Minute, "for how long")
	apiMost      = flag.Duration("api.most", 10*time.Second, "for how long as many as possible are asked for")
	apiConns     = flag.Int("api.conns", 64, "connections of the applications")
	apiDir       = flag.String("api.dir", "", "where state and documents go; default the temporary directory")
)

// BenchmarkAPI reports changes of applications to a `lockstep serve` process,
// by HTTP over loopback. It measures what the process uses at a given rate, and
// how long each change takes from the answer to its entry in the Change List,
// as read over HTTP; then the maximum rate, with idempotency keys and without,
// compared with a bare handler that appends the bodies to a file and syncs it
// once for all waiting requests.
func BenchmarkAPI(b *testing.B) {
	dir, err := os.MkdirTemp(*apiDir, "lockstep-api-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) }) // a temporary directory
	for b.Loop() {
		s := serveAPI(b, dir)
		s.fill(b)
		s.atRate(b)
		with := s.most(b, true)
		without := s.most(b, false)
		s.stop(b)
		bare := bareAPI(b, dir)
		most := bare.most(b, false)
		bare.stop(b)
		b.ReportMetric(with, "keys-changes/s")
		b.ReportMetric(without, "most-changes/s")
		b.ReportMetric(most, "bare-requests/s")
		b.ReportMetric(without/most, "most/bare")
	}
}

// An apiServer is a process that takes changes.
type apiServer struct {
	cmd    *exec.Cmd
	base   string // with a slash at the end
	client *http.Client
	next   atomic.Int64 // makes keys and lengths unique
}

// benchToken is the token of the API.
const benchToken = "secret"

// A bearing is a transport that sends the token along.
type bearing struct{ http.RoundTripper }

func (t bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+benchToken)
	return t.RoundTripper.RoundTrip(r)
}

// serveAPI starts lockstep serve in a fresh state below dir.
func serveAPI(b *testing.B, dir string) *apiServer {
	b.Helper()
	bin := filepath.Join(dir, "lockstep")
	if out, err := exec.Command("go", "build", "-o", bin, "lockstep/cmd/lockstep").CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	state, err := os.MkdirTemp(dir, "state-")
	if err != nil {
		b.Fatal(err)
	}
	config := filepath.Join(state, "lockstep.yaml")
	text := "listen: 127.0.0.1:0\nstate: " + filepath.Join(state, "state") + "\napi_token_file: token\nsets:\n  - name: main\n    from: \"api:\"\n"
	if err := os.WriteFile(filepath.Join(state, "token"), []byte(benchToken+"\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(config, []byte(text), 0o666); err != nil {
		b.Fatal(err)
	}
	return startAPI(b, exec.Command(bin, "serve", "--quiet", "--config", config))
}

// startAPI starts a process that says on stdout where it serves.
func startAPI(b *testing.B, c *exec.Cmd) *apiServer {
	b.Helper()
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	s := &apiServer{cmd: c, client: &http.Client{Transport: bearing{&http.Transport{MaxIdleConnsPerHost: *apiConns + 2}}}}
	b.Cleanup(func() { _ = c.Process.Kill() }) // does nothing where it has ended
	for in := bufio.NewScanner(out); in.Scan(); {
		if base, ok := strings.CutPrefix(in.Text(), "ready: "); ok {
			s.base = base
			return s
		}
	}
	b.Fatalf("%s did not become ready", c.Path)
	return nil
}

// stop ends the process.
func (s *apiServer) stop(b *testing.B) {
	b.Helper()
	s.client.CloseIdleConnections()
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		b.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 130 {
			b.Fatal(err)
		}
	}
}

// fill reports all resources, in batches.
func (s *apiServer) fill(b *testing.B) {
	b.Helper()
	const batch = 10_000
	start := time.Now()
	for from := 0; from < *apiResources; from += batch {
		var lines bytes.Buffer
		for i := from; i < min(from+batch, *apiResources); i++ {
			fmt.Fprintf(&lines, "{\"uri\":%q,\"length\":%d,\"type\":\"text/plain\"}\n", apiURI(int64(i)), 1_000_000_000+i)
		}
		resp, err := s.client.Post(s.base+"-/api/v1/sets/main/changes", "application/jsonl", &lines)
		if err != nil {
			b.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close() // read to its end
		if err != nil || resp.StatusCode != http.StatusOK {
			b.Fatalf("batch: %d %s, %v", resp.StatusCode, body, err)
		}
	}
	b.ReportMetric(float64(*apiResources)/time.Since(start).Seconds(), "batched-changes/s")
}

func apiURI(i int64) string { return fmt.Sprintf("https://data.example.org/papers/%08d.txt", i) }

// change reports one change: most are updates, some are new resources, a few
// are deletions. It returns the event time.
func (s *apiServer) change(ctx context.Context, key bool) (datetime string, err error) {
	n := s.next.Add(1)
	method, target := http.MethodPut, (n*7919)%int64(*apiResources)
	body := fmt.Sprintf(`{"length":%d,"type":"text/plain","hash":"md5:%032x"}`, n, n)
	switch n % 10 {
	case 0: // what was new a while ago
		if n > 1000 {
			method, target, body = http.MethodDelete, int64(*apiResources)+n-1000+9, ""
		}
	case 9:
		target = int64(*apiResources) + n
	}
	req, err := http.NewRequestWithContext(ctx, method, s.base+"-/api/v1/sets/main/resources?uri="+url.QueryEscape(apiURI(target)), strings.NewReader(body))
	if err != nil {
		return "", err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if key {
		req.Header.Set("Idempotency-Key", fmt.Sprintf("%08x-0000-4000-8000-%012x", n, n))
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode > 201 {
		return "", fmt.Errorf("%s: %d %s, %w", method, resp.StatusCode, text, err)
	}
	var v struct{ Change, Datetime string }
	if err := json.Unmarshal(text, &v); err != nil || v.Datetime == "" {
		return "", fmt.Errorf("%s: %s came to nothing, %w", method, text, err)
	}
	return v.Datetime, nil
}

// atRate reports changes at the requested rate, watches the Change List, and
// reports the cost.
func (s *apiServer) atRate(b *testing.B) {
	b.Helper()
	total := int(float64(*apiRate) * apiTime.Seconds())
	seen := s.watchChangeList(b)
	cpu, start := s.cpu(b), time.Now()
	var next atomic.Int64
	var mu sync.Mutex
	answered := make(map[string]time.Time, total)
	var took []float64
	var g sync.WaitGroup
	for range *apiConns {
		g.Go(func() {
			for i := next.Add(1) - 1; i < int64(total); i = next.Add(1) - 1 {
				due := start.Add(time.Duration(i) * time.Second / time.Duration(*apiRate))
				time.Sleep(time.Until(due))
				at, err := s.change(b.Context(), true)
				now := time.Now()
				if err != nil {
					b.Error(err)
					return
				}
				mu.Lock()
				answered[at] = now
				took = append(took, now.Sub(due).Seconds()) // late starts count
				mu.Unlock()
			}
		})
	}
	g.Wait()
	elapsed := time.Since(start)
	cores := (s.cpu(b) - cpu) / elapsed.Seconds()
	visible := seen.all(b, answered)
	slices.Sort(took)
	b.ReportMetric(float64(len(answered))/elapsed.Seconds(), "changes/s")
	b.ReportMetric(cores, "serve-cores")
	for _, q := range []struct {
		name string
		of   float64
	}{{"p50", 0.5}, {"p99", 0.99}, {"max", 1}} {
		b.ReportMetric(quantile(took, q.of)*1000, "answer-"+q.name+"-ms")
		b.ReportMetric(quantile(visible, q.of)*1000, "visible-"+q.name+"-ms")
	}
}

// cpu returns the processor seconds the process has used.
func (s *apiServer) cpu(b *testing.B) float64 {
	b.Helper()
	return processorTimeOf(b, s.cmd.Process.Pid).Seconds()
}

// most asks for as many changes as there can be and returns how many a second
// there were.
func (s *apiServer) most(b *testing.B, key bool) float64 {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), *apiMost)
	defer cancel()
	var done atomic.Int64
	var g sync.WaitGroup
	for range *apiConns {
		g.Go(func() {
			for ctx.Err() == nil {
				if _, err := s.change(b.Context(), key); err != nil {
					b.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	g.Wait()
	return float64(done.Load()) / apiMost.Seconds()
}

// A changeListWatch knows since when each change is in the Change List.
type changeListWatch struct {
	s      *apiServer
	seen   map[string]time.Time // by event time, which no two changes share
	read   map[string]int       // bytes of a document that need not be read again
	closed map[string]bool      // parts that are read to their end
	stop   context.CancelFunc
	ended  chan error
}

// watchChangeList reads the Change List repeatedly until it is stopped.
func (s *apiServer) watchChangeList(b *testing.B) *changeListWatch {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	w := &changeListWatch{s: s, seen: make(map[string]time.Time), read: make(map[string]int), closed: make(map[string]bool),
		stop: cancel, ended: make(chan error, 1)}
	go func() {
		for ctx.Err() == nil {
			if err := w.look(ctx, s.base+"resourcesync/main/changelist.xml"); err != nil && ctx.Err() == nil {
				w.ended <- err
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		w.ended <- nil
	}()
	return w
}

// all waits until every change is in the Change List, and returns the seconds
// each took from its answer.
func (w *changeListWatch) all(b *testing.B, answered map[string]time.Time) []float64 {
	b.Helper()
	select {
	case err := <-w.ended:
		b.Fatal(err)
	case <-time.After(3 * time.Second):
	}
	w.stop()
	if err := <-w.ended; err != nil {
		b.Fatal(err)
	}
	took := make([]float64, 0, len(answered))
	for at, when := range answered {
		seen, ok := w.seen[at]
		if !ok {
			b.Errorf("the change of %s is not in the Change List 3 s after the last one", at)
			continue
		}
		took = append(took, max(0, seen.Sub(when).Seconds()))
	}
	slices.Sort(took)
	return took
}

var (
	eventTime = regexp.MustCompile(`datetime="([^"]*)"`)
	partPlace = regexp.MustCompile(`<loc>([^<]*)</loc>(?:<lastmod>[^<]*</lastmod>)?<rs:md from="[^"]*"( until=)?`)
)

// look reads what is new in a Change List or the index of one. An open list
// grows: the old one with more behind it. So only the end is asked for.
func (w *changeListWatch) look(ctx context.Context, address string) error {
	from := w.read[address]
	text, err := w.get(ctx, address, from)
	if from > 0 && err == nil && !bytes.HasPrefix(text, []byte("<url>")) && !bytes.HasPrefix(text, []byte("</urlset>")) {
		from = 0 // another document
		text, err = w.get(ctx, address, 0)
	}
	if err != nil {
		return err
	}
	now := time.Now()
	if from == 0 && bytes.Contains(text[:min(len(text), 200)], []byte("<sitemapindex")) {
		delete(w.read, address)
		for _, m := range partPlace.FindAllSubmatch(text, -1) {
			part := string(m[1])
			if w.closed[part] {
				continue
			}
			if err := w.look(ctx, part); err != nil {
				return err
			}
			w.closed[part] = len(m[2]) > 0
		}
		return nil
	}
	for _, m := range eventTime.FindAllSubmatch(text, -1) {
		if _, known := w.seen[string(m[1])]; !known {
			w.seen[string(m[1])] = now
		}
	}
	w.read[address] = from + len(text) - len("</urlset>\n")
	return nil
}

// get reads a document from a byte on; nil if it does not go that far.
func (w *changeListWatch) get(ctx context.Context, address string, from int) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	want := http.StatusOK
	if from > 0 {
		want = http.StatusPartialContent
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := w.s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return nil, nil
	case resp.StatusCode != want:
		return nil, fmt.Errorf("%s: status %d, want %d", address, resp.StatusCode, want)
	}
	return text, nil
}

// bareAPI starts a process that does as little as possible for each request.
func bareAPI(b *testing.B, dir string) *apiServer {
	b.Helper()
	c := exec.Command(os.Args[0], "-test.run=^TestAPIBareProcess$")
	c.Env = append(os.Environ(), "LOCKSTEP_BENCH_API="+filepath.Join(dir, "bare"))
	return startAPI(b, c)
}

// TestAPIBareProcess is the yardstick of BenchmarkAPI: it appends each body to
// a file, and answers when that is synced.
func TestAPIBareProcess(t *testing.T) {
	path := os.Getenv("LOCKSTEP_BENCH_API")
	if path == "" {
		return // only when BenchmarkAPI starts it
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	a := &appender{file: f}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = a.append(body)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, `{"datetime":"now"}`) // the client may have disconnected
	})}
	go func() { _ = srv.Serve(l) }() // ends with the process
	fmt.Printf("ready: http://%s/\n", l.Addr())
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt)
	<-stop
}

// An appender appends to a file: what comes while it is being synced goes in
// together.
type appender struct {
	file *os.File

	mu      sync.Mutex // guards what follows
	waiting []byte
	done    chan struct{} // closed when what is waiting is synced
	busy    bool
	err     error
}

func (a *appender) append(p []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done == nil {
		a.done = make(chan struct{})
	}
	a.waiting = append(a.waiting, p...)
	done := a.done
	if a.busy {
		a.mu.Unlock()
		<-done
		a.mu.Lock()
		return a.err
	}
	a.busy = true
	for len(a.waiting) > 0 {
		batch, done := a.waiting, a.done
		a.waiting, a.done = nil, nil
		a.mu.Unlock()
		_, err := a.file.Write(batch)
		if err == nil {
			err = a.file.Sync()
		}
		a.mu.Lock()
		a.err = errors.Join(a.err, err)
		close(done)
	}
	a.busy = false
	return a.err
}
