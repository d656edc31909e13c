//go:build linux

package bench

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/intake/dir"
	"lockstep/source"
	"lockstep/storage/sqlite"
)

var (
	dumpDir    = flag.String("dump.dir", "", "where files and packages go; default /dev/shm if there is one")
	dumpFiles  = flag.Int("dump.files", 100_000, "small files to dump")
	dumpLarge  = flag.Int("dump.large", 100, "files of 10 MB to dump; the bar is 1000")
	dumpRounds = flag.Int("dump.rounds", 3, "measurements of each, in turn")
)

const (
	dumpSmallSize = 4096
	dumpLargeSize = 10_000_000
)

// BenchmarkDumpSmall sets the first Resource Dump of many small files, a
// process of its own that reads a SQLite catalog, verifies both hashes of each
// file and writes packages and manifests, beside zip storing the same tree. The
// ratios are of medians.
func BenchmarkDumpSmall(b *testing.B) {
	needs(b, "zip")
	parent := memoryDir(b, *dumpDir, "lockstep-dump-")
	for _, ext := range []string{"bin", "txt"} { // what is stored, what is deflated
		b.Run(ext, func(b *testing.B) {
			root := dumpTree(b, parent, *dumpFiles, dumpSmallSize, ext)
			dumpBeside(b, parent, root, *dumpFiles, func() float64 {
				out := filepath.Join(parent, "yardstick.zip")
				defer os.Remove(out) // a temporary file
				c := exec.Command("zip", "-0", "-q", "-r", out, ".")
				c.Dir = root
				s, _ := timed(b, c)
				return s
			})
		})
	}
}

// BenchmarkDumpLarge sets the first Resource Dump of large files beside the
// sum of what it takes to read them with cat and to compute both hashes with
// coreutils, as many at a time as there are processors.
func BenchmarkDumpLarge(b *testing.B) {
	parent := memoryDir(b, *dumpDir, "lockstep-dump-")
	root := dumpTree(b, parent, *dumpLarge, dumpLargeSize, "bin")
	cat := fmt.Sprintf(`find %s -type f -print0 | xargs -0 cat >/dev/null`, root)
	sums := fmt.Sprintf(`find %s -type f -print0 | xargs -0 -n 1 -P%d sh -c 'sha256sum "$1"; md5sum "$1"' _`, root, runtime.NumCPU())
	dumpBeside(b, parent, root, *dumpLarge, func() float64 {
		read, _ := timed(b, exec.Command("sh", "-c", cat))
		hash, _ := timed(b, exec.Command("sh", "-c", sums))
		return read + hash
	})
}

// dumpBeside scans the tree, and then measures the dump beside the yardstick.
func dumpBeside(b *testing.B, parent, root string, files int, yardstick func() float64) {
	b.Helper()
	state := b.TempDir()
	timed(b, dumpCommand("scan", root, state, "", files))
	for b.Loop() {
		var dumps, bare []float64
		var peak int64
		for range *dumpRounds {
			out, err := os.MkdirTemp(parent, "lockstep-dump-out-")
			if err != nil {
				b.Fatal(err)
			}
			_, rss := timed(b, dumpCommand("dump", root, state, out, files))
			if err := os.RemoveAll(out); err != nil {
				b.Fatal(err)
			}
			dumps, peak = append(dumps, dumpSeconds(b, state)), max(peak, rss)
			bare = append(bare, yardstick())
		}
		b.ReportMetric(median(dumps), "dump-s")
		b.ReportMetric(median(bare), "yardstick-s")
		b.ReportMetric(median(dumps)/median(bare), "dump/yardstick")
		b.ReportMetric(float64(peak)/(1<<20), "dump-MB")
	}
}

// dumpSeconds returns what the process took for its work, its start not counted.
func dumpSeconds(b *testing.B, state string) float64 {
	b.Helper()
	data, err := os.ReadFile(filepath.Join(state, "seconds"))
	var s float64
	if err == nil {
		s, err = strconv.ParseFloat(string(data), 64)
	}
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func dumpCommand(what, root, state, out string, files int) *exec.Cmd {
	c := exec.Command(os.Args[0], "-test.run=^TestDumpProcess$")
	c.Env = append(os.Environ(), "LOCKSTEP_BENCH_DUMP="+what, "LOCKSTEP_BENCH_ROOT="+root, "LOCKSTEP_BENCH_STATE="+state,
		"LOCKSTEP_BENCH_OUT="+out, fmt.Sprintf("LOCKSTEP_BENCH_FILES=%d", files))
	return c
}

// TestDumpProcess is the process that the benchmarks measure.
func TestDumpProcess(t *testing.T) {
	what, root, state := os.Getenv("LOCKSTEP_BENCH_DUMP"), os.Getenv("LOCKSTEP_BENCH_ROOT"), os.Getenv("LOCKSTEP_BENCH_STATE")
	if what == "" {
		return // only when a benchmark starts it
	}
	db, err := sqlite.Open(filepath.Join(state, "catalog.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() // the process ends
	d, err := dir.New(root, db.Catalog(), "https://example.org/resourcesync/main/capabilitylist.xml", dir.Options{BaseURI: "https://example.org/"})
	if err != nil {
		t.Fatal(err)
	}
	if what == "scan" {
		if _, err := d.Scan(context.Background()); err != nil {
			t.Fatal(err)
		}
		return
	}
	docs, err := blob.NewDir(os.Getenv("LOCKSTEP_BENCH_OUT"), blob.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	src, err := source.New(db.Catalog(), docs, source.Options{BaseURL: "https://example.org/", Sets: []source.Set{{
		ResourceDump: &source.ResourceDump{}, Bitstream: d.Bitstream,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	r, err := src.PublishDumps(context.Background())
	seconds := time.Since(start).Seconds()
	if err != nil {
		t.Fatal(err)
	}
	if r.Sets[0].Packages == 0 || r.Sets[0].Deviant > 0 {
		t.Fatalf("dumped %+v", r)
	}
	if err := os.WriteFile(filepath.Join(state, "seconds"), []byte(strconv.FormatFloat(seconds, 'f', 6, 64)), 0o666); err != nil {
		t.Fatal(err)
	}
}

// memoryDir makes a directory in parent or, by default, on a memory disk if there is
// one. It is removed at the end of the benchmark.
func memoryDir(b *testing.B, parent, prefix string) string {
	b.Helper()
	if parent == "" {
		parent = b.TempDir()
		if fi, err := os.Stat("/dev/shm"); err == nil && fi.IsDir() {
			parent = "/dev/shm"
		}
	}
	dir, err := os.MkdirTemp(parent, prefix)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) }) // a memory disk, or a temporary one
	return dir
}

// dumpTree makes files, a hundred to a directory: noise if they are to be
// stored, else words.
func dumpTree(b *testing.B, parent string, files, size int, ext string) string {
	b.Helper()
	root, err := os.MkdirTemp(parent, "tree-")
	if err != nil {
		b.Fatal(err)
	}
	noise := rand.NewChaCha8([32]byte{})
	words := rand.New(noise)
	body := make([]byte, size)
	for i := range files {
		dir := filepath.Join(root, fmt.Sprintf("%02d", i/10_000), fmt.Sprintf("%03d", i/100%100))
		if i%100 == 0 {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				b.Fatal(err)
			}
		}
		if ext == "bin" {
			_, _ = noise.Read(body)
		} else {
			body = body[:0]
			for len(body) < size {
				body = fmt.Appendf(body, "%s ", strconv.FormatUint(words.Uint64N(5000)*7919, 36))
			}
			body = body[:size]
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("resource-%06d.%s", i, ext)), body, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	time.Sleep(3 * time.Second) // until their times are believed
	return root
}
