//go:build linux

package bench

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var (
	distanceFiles = flag.Int("distance.files", 10_000, "resources fetched over a long way")
	distanceSize  = flag.Int("distance.size", 2048, "bytes of each")
	distanceTrip  = flag.Duration("distance.trip", 50*time.Millisecond, "round trip")
	distanceRate  = flag.Int64("distance.rate", 0, "bytes that arrive in a second; 0: any number")
	distanceZip   = flag.Bool("distance.gzip", false, "the documents are sent with gzip")
	distanceAlone = flag.Bool("distance.alone", false, "without the programs to compare with")
	distanceSlow  = flag.Int("distance.slow", 1000, "resources for aria2c; a tenth of them for wget")
)

// BenchmarkDistance mirrors a collection of small resources over a long way, by
// single requests, as a whole process with discovery, list and records; beside
// the tools that get the same URIs to files and nothing else. Those that would
// take minutes get fewer of them, and are compared by their rate.
func BenchmarkDistance(b *testing.B) {
	if !*distanceAlone {
		needs(b, "curl", "aria2c", "wget")
	}
	src := startFarSource(b, *distanceFiles, *distanceSize, *distanceTrip)
	curl := src.list(b, src.files, "url = %[1]q\noutput = %[2]q\n")
	aria := src.list(b, min(*distanceSlow, src.files), "%[1]s\n  out=%[2]s\n")
	wget := src.list(b, min(*distanceSlow/10, src.files), "%[1]s\n")
	var ours, curls, arias, wgets []float64
	var peak, conns, curlConns int64
	for b.Loop() {
		for range *syncRounds {
			dest := benchDir(b, "lockstep-far-")
			src.control(b, "reset")
			s, p, _ := src.sync(b, dest)
			ours, peak = append(ours, s/float64(src.files)), max(peak, p)
			conns = max(conns, src.control(b, "connections"))
			_ = os.RemoveAll(dest) // on a memory disk
			if *distanceAlone {
				continue
			}
			src.control(b, "reset")
			curls = append(curls, perFile(b, src.files, func(out string) *exec.Cmd {
				return exec.Command("curl", "--silent", "--no-progress-meter", "--fail", "--parallel", "--parallel-max", "256",
					"--create-dirs", "--output-dir", out, "--config", curl)
			}))
			curlConns = max(curlConns, src.control(b, "connections"))
		}
		if *distanceAlone {
			continue
		}
		arias = append(arias, perFile(b, min(*distanceSlow, src.files), func(out string) *exec.Cmd {
			return exec.Command("aria2c", "-q", "-j", "16", "--file-allocation=none", "-d", out, "-i", aria)
		}))
		wgets = append(wgets, perFile(b, min(*distanceSlow/10, src.files), func(out string) *exec.Cmd {
			return exec.Command("wget", "-q", "-x", "-P", out, "-i", wget)
		}))
	}
	b.ReportMetric(1/median(ours), "sync/s")
	b.ReportMetric(median(ours)*float64(src.files), "sync-s")
	b.ReportMetric(float64(peak)/(1<<20), "sync-MB")
	b.ReportMetric(float64(conns), "sync-conns")
	if *distanceAlone {
		return
	}
	b.ReportMetric(1/median(curls), "curl/s")
	b.ReportMetric(1/median(arias), "aria2c/s")
	b.ReportMetric(1/median(wgets), "wget/s")
	b.ReportMetric(median(curls)/median(ours), "times-curl")
	b.ReportMetric(median(arias)/median(ours), "times-aria2c")
	b.ReportMetric(median(wgets)/median(ours), "times-wget")
	b.ReportMetric(float64(curlConns), "curl-conns")
}

// perFile returns the seconds a command takes for each of n files.
func perFile(b *testing.B, n int, command func(out string) *exec.Cmd) float64 {
	b.Helper()
	out := benchDir(b, "lockstep-far-")
	defer os.RemoveAll(out)
	s, _ := timed(b, command(out))
	return s / float64(n)
}

// list writes a line, or several, for each of the first n resources.
func (s *farSource) list(b *testing.B, n int, format string) string {
	b.Helper()
	var buf bytes.Buffer
	for i := range n {
		path := resourcePath(i)
		line := strings.ReplaceAll(format, "%[1]q", fmt.Sprintf("%q", s.base+path))
		line = strings.ReplaceAll(line, "%[1]s", s.base+path)
		line = strings.ReplaceAll(line, "%[2]q", fmt.Sprintf("%q", path[1:]))
		buf.WriteString(strings.ReplaceAll(line, "%[2]s", path[1:]))
	}
	name := filepath.Join(b.TempDir(), "list.txt")
	if err := os.WriteFile(name, buf.Bytes(), 0o644); err != nil {
		b.Fatal(err)
	}
	return name
}

// A farSource is an origin at the other end of a long way. Its documents name
// the near end.
type farSource struct {
	*origin
	direct string // the address of the source itself
}

func startFarSource(b *testing.B, files, size int, trip time.Duration) *farSource {
	b.Helper()
	o := startOrigin(b, "^TestFarSourceProcess$", files, fmt.Sprintf("LOCKSTEP_BENCH_FAR=%d %d %v", files, size, *distanceZip))
	s := &farSource{origin: o, direct: o.base}
	s.publishAt(b, "http://"+startDelay(b, s.direct, trip, *distanceRate))
	return s
}

// control asks the source itself.
func (s *farSource) control(b *testing.B, what string) int64 {
	b.Helper()
	o := origin{base: "http://" + s.direct}
	return o.control(b, what)
}

// TestFarSourceProcess is the process of startFarSource: it prints its address,
// reads the address that clients use, and ends with its standard input.
func TestFarSourceProcess(t *testing.T) {
	var files, size int
	var zipped bool
	if n, _ := fmt.Sscan(os.Getenv("LOCKSTEP_BENCH_FAR"), &files, &size, &zipped); n != 3 {
		return // only when a benchmark starts it
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(l.Addr())
	in := bufio.NewReader(os.Stdin)
	g := &generated{t: t, files: files, size: size, version: map[int]int{}, gone: map[int]bool{}, at: time.Now().UTC()}
	g.noise = make([]byte, 4*size+1<<16)
	_, _ = rand.NewChaCha8([32]byte{}).Read(g.noise) // never fails
	if _, err := fmt.Fscan(in, &g.base); err != nil {
		t.Fatal(err)
	}
	g.build(t)
	if zipped {
		g.zipped = make(map[string][]byte)
		for path, text := range g.docs {
			g.zipped[path] = compressed(text)
		}
	}
	srv := &http.Server{Handler: g, ConnState: func(_ net.Conn, st http.ConnState) {
		if st == http.StateNew {
			g.conns.Add(1)
		}
	}}
	go func() { _ = srv.Serve(l) }() // until Close
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, in)
	_ = srv.Close()
}
