//go:build linux

package bench

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lockstep/resourcesync"
)

var (
	notifyRate    = flag.Float64("notify.rate", 14, "changes a second")
	notifySeconds = flag.Int("notify.seconds", 30, "for how long")
	notifyFrom    = flag.String("notify.from", "dir", "where changes come from: dir, files written in place; api, one request each")
	notifyFiles   = flag.Int("notify.files", 2000, "resources there are")
	notifyHub     = flag.Bool("notify.hub", true, "tell a hub; else what is written without one is measured")
)

// BenchmarkNotify measures the time from a change until a hub is notified, and
// how many bytes `serve` writes meanwhile: documents, catalog and everything
// else. The hub is in this process and only reads.
func BenchmarkNotify(b *testing.B) {
	program := filepath.Join(b.TempDir(), "lockstep")
	if out, err := exec.Command("go", "build", "-o", program, "lockstep/cmd/lockstep").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	for b.Loop() {
		w := &notifyWorld{B: b, dir: benchDir(b, "lockstep-notify-"), made: make(map[string]time.Time)}
		w.start(program)
		w.play()
		w.report()
	}
}

// A notifyWorld is what BenchmarkNotify measures.
type notifyWorld struct {
	*testing.B
	dir   string
	base  string
	serve *exec.Cmd
	io    [2]int64 // bytes written, before and after

	mu       sync.Mutex           // guards what follows
	made     map[string]time.Time // by URI: time of the first change without a notification
	begin    time.Time
	late     []notifyLate
	payloads int
	bytes    int64
	entries  int
}

// A notifyLate is how long a change took that was made at.
type notifyLate struct{ at, took time.Duration }

func (w *notifyWorld) name(i int) string { return fmt.Sprintf("d%02d/f%06d.txt", i%20, i) }

func (w *notifyWorld) start(program string) {
	w.Helper()
	hub := httptest.NewServer(http.HandlerFunc(w.notified))
	w.Cleanup(hub.Close)
	files := filepath.Join(w.dir, "files")
	for i := range *notifyFiles {
		path := filepath.Join(files, w.name(i))
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, []byte("first"), 0o644)
		}
		if err != nil {
			w.Fatal(err)
		}
	}
	from, at := files, hub.URL+"/"
	if *notifyFrom == "api" {
		from = "api:"
	}
	if !*notifyHub {
		at = "off"
	}
	token := filepath.Join(w.dir, "token")
	if err := os.WriteFile(token, []byte(benchToken+"\n"), 0o600); err != nil {
		w.Fatal(err)
	}
	w.serve = exec.Command(program, "serve", "-q", from, "--listen", "127.0.0.1:0", "--state", filepath.Join(w.dir, "state"), "--hub", at, "--api-token-file", token)
	w.serve.Stderr = os.Stderr
	out, err := w.serve.StdoutPipe()
	if err == nil {
		err = w.serve.Start()
	}
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		_ = w.serve.Process.Signal(syscall.SIGTERM)
		_ = w.serve.Wait() // says that it was interrupted
	})
	lines := bufio.NewScanner(out)
	for w.base == "" && lines.Scan() {
		w.base, _ = strings.CutPrefix(lines.Text(), "ready: ")
		if !strings.HasPrefix(lines.Text(), "ready: ") {
			w.base = ""
		}
	}
	if w.base == "" {
		w.Fatal("serve is not ready")
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // so that it is never held up
	time.Sleep(2 * time.Second)
}

// notified is the hub.
func (w *notifyWorld) notified(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	now := time.Now()
	rw.WriteHeader(http.StatusAccepted)
	if err != nil {
		w.Error(err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.payloads++
	w.bytes += int64(len(body))
	for e, err := range resourcesync.NewReader(bytes.NewReader(body), resourcesync.ReaderOptions{}).Entries() {
		if err != nil {
			w.Error(err)
			return
		}
		w.entries++
		if at, ok := w.made[e.Loc]; ok {
			delete(w.made, e.Loc)
			w.late = append(w.late, notifyLate{at.Sub(w.begin), now.Sub(at)})
		}
	}
}

// play makes changes at the agreed pace.
func (w *notifyWorld) play() {
	w.Helper()
	w.io[0] = w.written()
	n := int(*notifyRate * float64(*notifySeconds))
	w.mu.Lock()
	w.begin = time.Now()
	w.mu.Unlock()
	one := w.write
	if *notifyFrom == "api" {
		one = w.put
	}
	var wg sync.WaitGroup
	const writers = 64
	for k := range writers {
		wg.Go(func() {
			for i := k; i < n; i += writers {
				time.Sleep(time.Until(w.begin.Add(time.Duration(float64(i) / *notifyRate * 1e9))))
				if err := one(i); err != nil {
					w.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for deadline := time.Now().Add(20 * time.Second); *notifyHub && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		w.mu.Lock()
		left := len(w.made)
		w.mu.Unlock()
		if left == 0 {
			break
		}
	}
	w.io[1] = w.written()
}

// making notes that a resource is about to change.
func (w *notifyWorld) making(uri string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, waiting := w.made[uri]; !waiting {
		w.made[uri] = time.Now()
	}
}

func (w *notifyWorld) write(i int) error {
	name := w.name(i % *notifyFiles)
	w.making(w.base + name)
	return os.WriteFile(filepath.Join(w.dir, "files", name), fmt.Appendf(nil, "%d, and so on", i), 0o644)
}

func (w *notifyWorld) put(i int) error {
	uri := w.base + w.name(i%*notifyFiles)
	w.making(uri)
	req, err := http.NewRequest(http.MethodPut, w.base+"-/api/v1/sets/main/resources?uri="+url.QueryEscape(uri),
		strings.NewReader(fmt.Sprintf(`{"lastmod":"2026-01-05T10:00:00Z","length":%d,"type":"text/html"}`, i)))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+benchToken)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close() // read only
	_, _ = io.Copy(io.Discard, res.Body)
	if res.StatusCode >= 300 {
		return fmt.Errorf("PUT: %s", res.Status)
	}
	return nil
}

// written returns how many bytes the Source has written, to whatever.
func (w *notifyWorld) written() int64 {
	w.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", w.serve.Process.Pid))
	if err != nil {
		w.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "wchar: ")
	line, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.ParseInt(line, 10, 64) // of the kernel's making
	return n
}

func (w *notifyWorld) report() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ReportMetric(float64(w.io[1]-w.io[0])/1e6/float64(*notifySeconds), "written-MB/s")
	w.ReportMetric(0, "ns/op")
	if !*notifyHub {
		return
	}
	if len(w.made) > 0 {
		w.Errorf("%d changes were never told", len(w.made))
	}
	share := func(late []notifyLate, p float64) float64 {
		slices.SortFunc(late, func(a, b notifyLate) int { return int(a.took - b.took) })
		return late[min(int(p*float64(len(late))), len(late)-1)].took.Seconds() * 1e3
	}
	ends := func(last bool) []notifyLate {
		return slices.DeleteFunc(slices.Clone(w.late), func(l notifyLate) bool {
			return last != (l.at > time.Duration(*notifySeconds)*time.Second-10*time.Second)
		})
	}
	w.ReportMetric(share(w.late, .5), "p50-ms")
	w.ReportMetric(share(w.late, .99), "p99-ms")
	w.ReportMetric(share(ends(false), .5), "before-p50-ms")
	w.ReportMetric(share(ends(true), .5), "last10s-p50-ms")
	w.ReportMetric(float64(w.payloads)/float64(*notifySeconds), "notifications/s")
	w.ReportMetric(float64(w.entries), "entries")
	w.ReportMetric(float64(w.bytes)/1e6/float64(*notifySeconds), "told-MB/s")
}
