//go:build linux

package bench

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/destination"
	"lockstep/destination/lock"
	"lockstep/internal/fetch"
	"lockstep/internal/garbage"
	"lockstep/resourcesync"
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

func resourcePath(i int) string {
	return fmt.Sprintf("/data/%02d/%03d/resource-%06d.bin", i/10_000, i/100%100, i)
}

// TestSourceProcess is the Source that the benchmarks sync from. It ends with
// its standard input.
func TestSourceProcess(t *testing.T) {
	var files, size int
	var big int64
	if n, _ := fmt.Sscan(os.Getenv("LOCKSTEP_BENCH_SOURCE"), &files, &size, &big); n != 3 {
		return // only when a benchmark starts it
	}
	s := &generated{t: t, files: files, size: size, big: big, version: map[int]int{}, gone: map[int]bool{}}
	s.at = time.Now().UTC()
	s.noise = make([]byte, 4*size+1<<16)
	_, _ = rand.NewChaCha8([32]byte{}).Read(s.noise)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.base = "http://" + l.Addr().String()
	s.build(t)
	srv := &http.Server{Handler: s, ConnState: func(c net.Conn, st http.ConnState) {
		if st == http.StateNew {
			s.conns.Add(1)
		}
	}}
	go func() { _ = srv.Serve(l) }() // until Close
	fmt.Println(s.base)
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = srv.Close()
}

// A generated Source makes its resources from their numbers.
type generated struct {
	t           *testing.T
	files, size int
	big         int64
	noise       []byte
	base        string
	at          time.Time
	conns       atomic.Int64
	log         requestLog

	mu      sync.RWMutex // guards what follows
	docs    map[string][]byte
	zipped  map[string][]byte // of the docs, for clients that accept gzip; may be nil
	version map[int]int
	gone    map[int]bool
	changed []resourcesync.Entry
	last    time.Time
}

// body returns the content of a resource: cheap to make, for it is not the
// Source that is measured.
func (g *generated) body(i, version int) []byte {
	b := make([]byte, max(g.size, 16))
	copy(b[16:], g.noise[i%len(g.noise)/2:])
	binary.LittleEndian.PutUint64(b, uint64(i))
	binary.LittleEndian.PutUint64(b[8:], uint64(version))
	return b[:g.size]
}

func (g *generated) entry(i, version int) resourcesync.Entry {
	b := g.body(i, version)
	s5, s2 := md5.Sum(b), sha256.Sum256(b)
	e := resourcesync.Entry{Loc: g.base + resourcePath(i), Lastmod: resourcesync.NewDatetime(g.at.Truncate(time.Second))}
	e.Hashes = resourcesync.Hashes{{Algorithm: resourcesync.MD5, Digest: string(s5[:])}, {Algorithm: resourcesync.SHA256, Digest: string(s2[:])}}
	e.Length, e.HasLength, e.Type = int64(len(b)), true, "application/octet-stream"
	return e
}

// build makes the documents of the first state.
func (g *generated) build(t *testing.T) {
	g.docs = map[string][]byte{}
	at := resourcesync.NewDatetime(g.at)
	up := []resourcesync.Link{{Rel: "up", Href: g.base + "/rs/capabilitylist.xml"}}
	const part = resourcesync.MaxEntries
	var index []resourcesync.Entry
	var one []byte
	for from := 0; from < g.files; from += part {
		var entries []resourcesync.Entry
		for i := from; i < min(from+part, g.files); i++ {
			entries = append(entries, g.entry(i, 0))
		}
		if from == 0 && g.big > 0 {
			entries = append(entries, resourcesync.Entry{Loc: g.base + "/big", Metadata: resourcesync.Metadata{Length: g.big, HasLength: true}})
		}
		one = write(t, resourcesync.Header{Capability: resourcesync.ResourceList, At: at, Links: up}, entries)
		name := fmt.Sprintf("/rs/list-%d.xml", from/part)
		g.docs[name] = one
		index = append(index, resourcesync.Entry{Loc: g.base + name})
	}
	if g.docs["/rs/resourcelist.xml"] = one; len(index) > 1 {
		g.docs["/rs/resourcelist.xml"] = write(t, resourcesync.Header{Capability: resourcesync.ResourceList, Index: true, At: at, Links: up}, index)
	}
	g.docs["/rs/capabilitylist.xml"] = write(t, resourcesync.Header{Capability: resourcesync.CapabilityList,
		Links: []resourcesync.Link{{Rel: "up", Href: g.base + "/.well-known/resourcesync"}}}, []resourcesync.Entry{
		{Loc: g.base + "/rs/resourcelist.xml", Metadata: resourcesync.Metadata{Capability: resourcesync.ResourceList}},
		{Loc: g.base + "/rs/changelist.xml", Metadata: resourcesync.Metadata{Capability: resourcesync.ChangeList}},
	})
	g.docs["/.well-known/resourcesync"] = write(t, resourcesync.Header{Capability: resourcesync.Description}, []resourcesync.Entry{
		{Loc: g.base + "/rs/capabilitylist.xml", Metadata: resourcesync.Metadata{Capability: resourcesync.CapabilityList}},
	})
	g.last = g.at
	g.change(t, nil)
}

// change makes a Change List that goes on with the changes to the resources given.
func (g *generated) change(t *testing.T, which []int) {
	for k, i := range which {
		var e resourcesync.Entry
		if k%10 == 9 {
			g.gone[i] = true
			e.Loc, e.Change = g.base+resourcePath(i), resourcesync.Deleted
		} else {
			g.version[i]++
			e = g.entry(i, g.version[i])
			e.Change = resourcesync.Updated
		}
		g.last = g.last.Add(time.Microsecond)
		e.Datetime = resourcesync.NewDatetime(g.last)
		g.changed = append(g.changed, e)
	}
	g.docs["/rs/changelist.xml"] = write(t, resourcesync.Header{Capability: resourcesync.ChangeList, From: resourcesync.NewDatetime(g.at),
		Links: []resourcesync.Link{{Rel: "up", Href: g.base + "/rs/capabilitylist.xml"}}}, g.changed)
}

func (g *generated) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if what, ok := strings.CutPrefix(r.URL.Path, "/control/"); ok {
		g.control(w, what)
		return
	}
	if r.URL.Path == "/big" {
		w.Header().Set("Content-Length", strconv.FormatInt(g.big, 10))
		_, _ = io.CopyN(w, zeros{}, g.big)
		return
	}
	g.log.add(r.URL.Path)
	g.mu.RLock()
	defer g.mu.RUnlock()
	if text, ok := g.docs[r.URL.Path]; ok {
		if zipped, ok := g.zipped[r.URL.Path]; ok && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			text = zipped
			w.Header().Set("Content-Encoding", "gzip")
		}
		sum := md5.Sum(text)
		w.Header().Set("ETag", fmt.Sprintf(`"%x"`, sum[:6]))
		w.Header().Set("Content-Type", "application/xml")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
		return
	}
	_, no, _ := strings.Cut(r.URL.Path, "resource-")
	i, err := strconv.Atoi(strings.TrimSuffix(no, ".bin"))
	if err != nil || i >= g.files || g.gone[i] {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(g.size))
	w.Header().Set("ETag", fmt.Sprintf(`"%d-%d"`, i, g.version[i]))
	_, _ = w.Write(g.body(i, g.version[i]))
}

// control executes a command of a benchmark: restart the count of connections,
// return their number, or change a hundred resources, of which ninety remain.
func (g *generated) control(w http.ResponseWriter, what string) {
	switch what {
	case "reset":
		g.conns.Store(0)
		g.log.restart()
	case "connections":
		fmt.Fprint(w, g.conns.Load()-1) // this one is the benchmark's
	case "first":
		g.log.writeTo(w)
	case "change":
		g.mu.Lock()
		defer g.mu.Unlock()
		var which []int
		for i := len(g.gone); len(which) < 100; i += g.files/101 + 1 {
			for i %= g.files; g.gone[i]; i = (i + 1) % g.files {
			}
			which = append(which, i)
		}
		g.change(g.t, which)
	}
}

// zeros are without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func write(t *testing.T, h resourcesync.Header, entries []resourcesync.Entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := resourcesync.NewWriter(&buf, h)
	if err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		if err := w.Write(&entries[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}
