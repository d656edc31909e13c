//go:build linux

package bench

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"lockstep/internal/simulate"
	"lockstep/source"
)

var demandRecords = flag.Int("demand.records", 10_000, "records of BenchmarkSyncOnDemand")

// BenchmarkSyncOnDemand sets the first sync of 10,000 records of 2 KB from a
// Source a round trip of 50 ms away, which makes packages on demand, beside the
// bar of 10,000 records a second: the whole process, discovery included. With
// -distance.rate they arrive no faster than that.
func BenchmarkSyncOnDemand(b *testing.B) {
	records := *demandRecords
	src := startDumps(b, records, 2048, false, 50*time.Millisecond)
	for b.Loop() {
		var ours, inner []float64
		var rss int64
		for range *syncRounds {
			dest := benchDir(b, "lockstep-demand-")
			s, r, inside := src.sync(b, dest)
			ours, inner, rss = append(ours, s), append(inner, inside), max(rss, r)
			wantFiles(b, dest, records)
			_ = os.RemoveAll(dest) // on a memory disk
		}
		b.ReportMetric(median(ours), "s")
		b.ReportMetric(median(inner), "inside-s")
		b.ReportMetric(float64(records)/median(ours), "records/s")
		b.ReportMetric(float64(rss)/(1<<20), "MB")
	}
}

// BenchmarkSyncDump sets the first sync of a collection through its Resource
// Dump, verified and recorded, beside curl and unzip of the same package, which
// do neither.
func BenchmarkSyncDump(b *testing.B) {
	needs(b, "curl", "unzip")
	src := startDumps(b, *syncFiles, int64(*syncSize), true, 0)
	packages := src.packages(b)
	for b.Loop() {
		var ours, inner, theirs []float64
		var rss int64
		for range *syncRounds {
			dest := benchDir(b, "lockstep-dump-")
			s, r, inside := src.sync(b, dest)
			ours, inner, rss = append(ours, s), append(inner, inside), max(rss, r)
			wantFiles(b, dest, *syncFiles)
			_ = os.RemoveAll(dest) // on a memory disk

			out := benchDir(b, "lockstep-unzip-")
			start := time.Now()
			for i, uri := range packages {
				zip := filepath.Join(out, fmt.Sprintf("%d.zip", i))
				for _, args := range [][]string{{"curl", "--silent", "--fail", uri, "-o", zip}, {"unzip", "-q", "-o", zip, "-d", out}} {
					c := exec.Command(args[0], args[1:]...)
					c.Stderr = os.Stderr
					if err := c.Run(); err != nil {
						b.Fatal(err)
					}
				}
			}
			theirs = append(theirs, time.Since(start).Seconds())
			_ = os.RemoveAll(out) // likewise
		}
		b.ReportMetric(median(ours), "sync-s")
		b.ReportMetric(median(inner), "inside-s")
		b.ReportMetric(median(theirs), "unzip-s")
		b.ReportMetric(median(ours)/median(theirs), "sync/unzip")
		b.ReportMetric(float64(rss)/(1<<20), "sync-MB")
	}
}

// wantFiles checks that a mirror has so many files beside its state.
func wantFiles(b *testing.B, dest string, want int) {
	b.Helper()
	if n := countFiles(b, dest) - countFiles(b, filepath.Join(dest, ".lockstep")); n != want {
		b.Fatalf("%d files, want %d", n, want)
	}
}

// startDumps starts a process that is a Source of resources of size bytes, as
// far away as the round trip says, with dumps or with packages on demand only.
func startDumps(b *testing.B, files int, size int64, dump bool, roundTrip time.Duration) *origin {
	b.Helper()
	s := startOrigin(b, "^TestDumpSourceProcess$", files, fmt.Sprintf("LOCKSTEP_BENCH_DUMPS=%d %d %v", files, size, dump))
	address := s.base
	if roundTrip > 0 {
		address = startDelay(b, address, roundTrip, *distanceRate)
	}
	s.publishAt(b, "http://"+address+"/")
	return s
}

// packages returns the addresses of the packages of the Resource Dump.
func (s *origin) packages(b *testing.B) []string {
	b.Helper()
	resp, err := http.Get(s.base + "resourcesync/main/resourcedump.xml")
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.Fatal(err)
	}
	packages := regexp.MustCompile(`http[^<"]*\.zip`).FindAllString(string(text), -1)
	if len(packages) == 0 {
		b.Fatal("no packages")
	}
	return packages
}

// TestDumpSourceProcess is the Source of these benchmarks. It prints its
// address, reads its public name, reports that it is ready, and ends with its
// standard input.
func TestDumpSourceProcess(t *testing.T) {
	var files int
	var size int64
	var dump bool
	if n, _ := fmt.Sscan(os.Getenv("LOCKSTEP_BENCH_DUMPS"), &files, &size, &dump); n != 3 {
		return // only when a benchmark starts it
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(l.Addr())
	in := bufio.NewReader(os.Stdin)
	base, err := in.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	o := simulate.Options{BaseURL: strings.TrimSpace(base), Resources: files, Sizes: simulate.Sizes{Min: size, Max: size}}
	if dump {
		o.ResourceDump = new(source.ResourceDump)
	}
	sim, err := simulate.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: sim.Handler(), ReadHeaderTimeout: time.Minute}
	go func() { _ = srv.Serve(l) }() // until Close
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, in)
	_ = srv.Close()
}
