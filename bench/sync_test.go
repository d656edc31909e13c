//go:build linux

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/destination"
	"lockstep/destination/lock"
	"lockstep/internal/fetch"
	"lockstep/internal/garbage"
	"lockstep/storage/sqlite"
)

var (
	syncFiles  = flag.Int("sync.files", 10_000, "resources of the baseline")
	syncSize   = flag.Int("sync.size", 4096, "bytes of each")
	syncBig    = flag.Int64("sync.big", 0, "bytes of one more resource")
	syncJobs   = flag.Int("sync.jobs", 0, "concurrent fetches; default: the Client's")
	syncSmall  = flag.Int("sync.small", 5_000, "resources of the smaller collection of the incremental run")
	syncLarge  = flag.Int("sync.large", 500_000, "and of the larger")
	syncRounds = flag.Int("sync.rounds", 3, "measurements of each, in turn")
	syncDir    = flag.String("sync.dir", "/dev/shm", "where mirrors go")
	syncCPU    = flag.String("sync.cpuprofile", "", "file for a profile of the last sync")
)

// BenchmarkSyncBaseline sets the first sync of a collection, a process of its
// own: verified, atomic, recorded; beside curl fetching the same URIs to files.
func BenchmarkSyncBaseline(b *testing.B) {
	needs(b, "curl")
	src := startSource(b, *syncFiles, *syncBig)
	list := curlList(b, src)
	for b.Loop() {
		var ours, curls []float64
		var rss, conns, curlConns int64
		for range *syncRounds {
			dest := benchDir(b, "lockstep-sync-")
			src.control(b, "reset")
			s, r, _ := src.sync(b, dest)
			ours, rss = append(ours, s), max(rss, r)
			conns = max(conns, src.control(b, "connections"))
			_ = os.RemoveAll(dest) // on a memory disk

			src.control(b, "reset")
			out := benchDir(b, "lockstep-curl-")
			c := exec.Command("curl", "--silent", "--no-progress-meter", "--fail", "--parallel", "--parallel-max", "64", "--create-dirs",
				"--output-dir", out, "--config", list)
			s, _ = timed(b, c)
			curls = append(curls, s)
			curlConns = max(curlConns, src.control(b, "connections"))
			_ = os.RemoveAll(out) // likewise
		}
		b.ReportMetric(median(ours), "sync-s")
		b.ReportMetric(median(curls), "curl-s")
		b.ReportMetric(median(ours)/median(curls), "sync/curl")
		b.ReportMetric(float64(rss)/(1<<20), "sync-MB")
		b.ReportMetric(float64(conns), "sync-conns")
		b.ReportMetric(float64(curlConns), "curl-conns")
	}
}

// BenchmarkSyncIncremental sets the sync of a hundred changes, ninety of them
// to be fetched, beside a bare loop of those ninety requests; in a small and a
// large collection. The time is that beyond the start of the process.
func BenchmarkSyncIncremental(b *testing.B) {
	for b.Loop() {
		var medians []float64
		for _, n := range []int{*syncSmall, *syncLarge} {
			src := startSource(b, n, 0)
			dest := benchDir(b, "lockstep-sync-")
			src.sync(b, dest)
			var ours, loops []float64
			var conns int64
			for range max(5, *syncRounds) {
				src.control(b, "change")
				src.control(b, "reset")
				_, _, inside := src.sync(b, dest)
				ours = append(ours, inside)
				conns = max(conns, src.control(b, "connections"))
				loops = append(loops, bareLoop(b, src, 90))
			}
			_ = os.RemoveAll(dest) // on a memory disk
			src.stop()
			medians = append(medians, median(ours))
			b.ReportMetric(median(ours), fmt.Sprintf("sync-%d-s", n))
			b.ReportMetric(median(loops), fmt.Sprintf("loop-%d-s", n))
			b.ReportMetric(median(ours)/median(loops), fmt.Sprintf("sync/loop-%d", n))
			b.ReportMetric(float64(conns), fmt.Sprintf("conns-%d", n))
		}
		b.ReportMetric(medians[1]/medians[0], "large/small")
	}
}

// bareLoop gets n resources one after the other and returns the seconds.
func bareLoop(b *testing.B, src *origin, n int) float64 {
	b.Helper()
	start := time.Now()
	for i := range n {
		resp, err := http.Get(src.base + resourcePath(i))
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	return time.Since(start).Seconds()
}

func benchDir(b *testing.B, pattern string) string {
	b.Helper()
	dir, err := os.MkdirTemp(*syncDir, pattern)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) }) // on a memory disk
	return dir
}

// curlList writes a configuration for curl that gets every resource.
func curlList(b *testing.B, src *origin) string {
	b.Helper()
	var buf bytes.Buffer
	for i := range src.files {
		path := resourcePath(i)
		fmt.Fprintf(&buf, "url = %q\noutput = %q\n", src.base+path, strings.TrimPrefix(path, "/"))
	}
	name := filepath.Join(b.TempDir(), "curl.txt")
	if err := os.WriteFile(name, buf.Bytes(), 0o644); err != nil {
		b.Fatal(err)
	}
	return name
}

// An origin is a process that serves a generated collection.
type origin struct {
	base  string
	list  string // where its documents begin, below base
	files int
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   io.Reader
}

func startSource(b *testing.B, files int, big int64) *origin {
	b.Helper()
	return startOrigin(b, "^TestSourceProcess$", files, fmt.Sprintf("LOCKSTEP_BENCH_SOURCE=%d %d %d", files, *syncSize, big))
}

// startOrigin starts a process of this program that serves files resources, by
// the test that is the process, and prints its address first.
func startOrigin(b *testing.B, test string, files int, env string) *origin {
	b.Helper()
	c := exec.Command(os.Args[0], "-test.run="+test)
	c.Env = append(os.Environ(), env)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	s := &origin{files: files, cmd: c, in: in, out: out}
	b.Cleanup(s.stop)
	if _, err := fmt.Fscan(out, &s.base); err != nil {
		b.Fatal(err)
	}
	return s
}

// publishAt makes a process that waits for the address that clients use publish its
// documents there.
func (s *origin) publishAt(b *testing.B, base string) {
	b.Helper()
	s.base = base
	if _, err := fmt.Fprintln(s.in, base); err != nil {
		b.Fatal(err)
	}
	var ready string
	if _, err := fmt.Fscan(s.out, &ready); err != nil {
		b.Fatalf("the Source did not publish: %v", err)
	}
}

func (s *origin) stop() {
	_ = s.in.Close() // makes it end
	_ = s.cmd.Wait() // a second time it has been waited for
}

// control sends a command to the source and returns its answer.
func (s *origin) control(b *testing.B, what string) int64 {
	b.Helper()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get(s.base + "/control/" + what)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.Fatal(err)
	}
	n, _ := strconv.ParseInt(string(text), 10, 64)
	return n
}

// sync runs a Destination and returns its seconds, its peak memory, and its
// seconds beyond the start of the process.
func (s *origin) sync(b *testing.B, dest string) (seconds float64, rss int64, inside float64) {
	b.Helper()
	report := filepath.Join(b.TempDir(), "report")
	seconds, rss = timed(b, s.syncCommand(dest, report))
	text, err := os.ReadFile(report)
	if err != nil {
		b.Fatal(err)
	}
	inside, err = strconv.ParseFloat(string(text), 64)
	if err != nil {
		b.Fatal(err)
	}
	return seconds, rss, inside
}

// syncCommand returns the process of a Destination.
func (s *origin) syncCommand(dest, report string) *exec.Cmd {
	c := exec.Command(os.Args[0], "-test.run=^TestSyncProcess$")
	c.Env = append(os.Environ(), "LOCKSTEP_BENCH_SYNC="+s.base+s.list, "LOCKSTEP_BENCH_DEST="+dest,
		"LOCKSTEP_BENCH_REPORT="+report, fmt.Sprintf("LOCKSTEP_BENCH_JOBS=%d", *syncJobs))
	if *syncCPU != "" {
		c.Args = append(c.Args, "-test.cpuprofile="+*syncCPU)
	}
	return c
}

// startSync starts a Destination.
func (s *origin) startSync(b *testing.B, dest string) *exec.Cmd {
	b.Helper()
	c := s.syncCommand(dest, filepath.Join(b.TempDir(), "report"))
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	return c
}

// TestSyncProcess is the process that the benchmarks measure.
func TestSyncProcess(t *testing.T) {
	base, dest := os.Getenv("LOCKSTEP_BENCH_SYNC"), os.Getenv("LOCKSTEP_BENCH_DEST")
	if base == "" {
		return // only when a benchmark starts it
	}
	start := time.Now()
	garbage.TuneCopying() // as the command does
	jobs, _ := strconv.Atoi(os.Getenv("LOCKSTEP_BENCH_JOBS"))
	r, err := syncInto(context.Background(), dest, base, jobs)
	if err != nil {
		t.Fatalf("%v: %+v", err, r)
	}
	text := strconv.FormatFloat(time.Since(start).Seconds(), 'g', -1, 64)
	if err := os.WriteFile(os.Getenv("LOCKSTEP_BENCH_REPORT"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	line, _ := json.Marshal(r)
	t.Logf("%s", line)
}

// syncInto synchronizes the mirror dest with the Source at base, as the command does.
func syncInto(ctx context.Context, dest, base string, jobs int) (r destination.Report, err error) {
	held, err := lock.Acquire(dest)
	if err != nil {
		return r, err
	}
	db, err := sqlite.Open(filepath.Join(dest, destination.StateFile))
	if err != nil {
		return r, err
	}
	store, err := blob.NewDir(dest, blob.DirOptions{})
	if err != nil {
		return r, err
	}
	home, err := url.Parse(base)
	if err != nil {
		return r, err
	}
	c, err := fetch.New(fetch.Options{Home: home, Jobs: jobs})
	if err != nil {
		return r, err
	}
	d, err := destination.New(store, db.Journal(), c, destination.Options{Dest: dest})
	if err != nil {
		return r, err
	}
	if r, err = d.Sync(ctx, base); err != nil {
		return r, err
	}
	return r, errors.Join(db.Close(), store.Close(), held.Close())
}
