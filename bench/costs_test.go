//go:build linux

package bench

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"testing"
)

// BenchmarkSyncCosts counts the allocations and system calls of the first sync of a
// collection that nginx serves, all of them divided by the resources. They hardly depend
// on the load. The system calls are counted by strace; waiting of Go's runtime for itself
// (nanosleep) is left out, as strace multiplies it.
func BenchmarkSyncCosts(b *testing.B) {
	needs(b, "nginx", "strace")
	dir := benchDir(b, "lockstep-costs-*")
	program := filepath.Join(dir, "lockstep")
	if out, err := exec.Command("go", "build", "-o", program, "lockstep/cmd/lockstep").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	files := filepath.Join(dir, "files")
	writeResources(b, files)
	selfSigned(b, dir) // all servers are given a certificate
	site := &nginxSite{name: "http", scheme: "http"}
	serveSites(b, dir, program, files, []*nginxSite{site})
	for b.Loop() {
		b.ReportMetric(mallocs(b, site.base)/float64(*syncFiles), "allocations/resource")
		b.ReportMetric(systemCalls(b, program, site.base)/float64(*syncFiles), "syscalls/resource")
	}
}

// mallocs returns the number of allocations of a first sync in this process.
func mallocs(b *testing.B, base string) float64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := syncInto(context.Background(), benchDir(b, "lockstep-mallocs-"), base, 0); err != nil {
		b.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs - before.Mallocs)
}

// counted matches a line of the table that strace writes.
var counted = regexp.MustCompile(`(?m)^ *[\d.]+ +[\d.]+ +\d* +(\d+) +(?:\d+ +)?(\w+)$`)

// systemCalls returns the number of system calls of a first sync by the program.
func systemCalls(b *testing.B, program, base string) float64 {
	out := filepath.Join(benchDir(b, "lockstep-strace-"), "calls")
	c := exec.Command("strace", "-f", "-c", "-o", out, program, "sync", base, benchDir(b, "lockstep-sync-"), "-q")
	if text, err := c.CombinedOutput(); err != nil {
		b.Skipf("strace: %v: %s", err, text)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		b.Fatal(err)
	}
	sum := 0.0
	for _, m := range counted.FindAllSubmatch(text, -1) {
		if n, err := strconv.ParseFloat(string(m[1]), 64); err == nil && !bytes.Equal(m[2], []byte("nanosleep")) && !bytes.Equal(m[2], []byte("total")) {
			sum += n
		}
	}
	return sum
}
