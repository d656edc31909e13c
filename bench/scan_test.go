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

	"lockstep/intake/dir"
	"lockstep/storage/sqlite"
)

var (
	scanFiles = flag.Int("scan.files", 100_000, "files to scan")
	scanSize  = flag.Int("scan.size", 4096, "bytes of each")
	scanDir   = flag.String("scan.dir", "", "where the files go; default /dev/shm if there is one")
	scanRound = flag.Int("scan.rounds", 3, "measurements of each, in turn")
)

// BenchmarkScan sets a scan into an empty SQLite catalog, a process of its own,
// beside coreutils computing the same hashes; and a second scan, which finds
// nothing changed, beside find printing sizes and times. The ratios are of
// medians.
func BenchmarkScan(b *testing.B) {
	root, db := scanTree(b), filepath.Join(b.TempDir(), "db")
	hashes := fmt.Sprintf(`find %s -type f -print0 | xargs -0 -n 500 -P%d sh -c 'sha256sum "$@"; md5sum "$@"' _`, root, runtime.NumCPU())
	names := fmt.Sprintf(`find %s -printf '%%s %%T@ %%p\n'`, root)
	for b.Loop() {
		var first, again, sums, finds []float64
		var firstRSS, againRSS int64
		for range *scanRound {
			if err := os.RemoveAll(db); err != nil {
				b.Fatal(err)
			}
			if err := os.Mkdir(db, 0o755); err != nil {
				b.Fatal(err)
			}
			s, rss := timed(b, scanCommand(root, db))
			first, firstRSS = append(first, s), max(firstRSS, rss)
			s, _ = timed(b, exec.Command("sh", "-c", hashes))
			sums = append(sums, s)
			for range 3 {
				s, rss = timed(b, scanCommand(root, db))
				again, againRSS = append(again, s), max(againRSS, rss)
				s, _ = timed(b, exec.Command("sh", "-c", names))
				finds = append(finds, s)
			}
		}
		b.ReportMetric(median(first), "scan-s")
		b.ReportMetric(median(sums), "coreutils-s")
		b.ReportMetric(median(first)/median(sums), "scan/coreutils")
		b.ReportMetric(float64(firstRSS)/(1<<20), "scan-MB")
		b.ReportMetric(median(again), "again-s")
		b.ReportMetric(median(finds), "find-s")
		b.ReportMetric(median(again)/median(finds), "again/find")
		b.ReportMetric(float64(againRSS)/(1<<20), "again-MB")
	}
}

// TestScanProcess is the process that BenchmarkScan measures.
func TestScanProcess(t *testing.T) {
	root, state := os.Getenv("LOCKSTEP_BENCH_ROOT"), os.Getenv("LOCKSTEP_BENCH_STATE")
	if root == "" {
		return // only when BenchmarkScan starts it
	}
	db, err := sqlite.Open(filepath.Join(state, "catalog.db"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := dir.New(root, db.Catalog(), "https://example.org/cl.xml", dir.Options{BaseURI: "https://example.org/"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := d.Scan(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if want, _ := strconv.ParseInt(os.Getenv("LOCKSTEP_BENCH_FILES"), 10, 64); r.Files != want {
		t.Fatalf("scanned %d files, want %d", r.Files, want)
	}
}

func scanCommand(root, state string) *exec.Cmd {
	c := exec.Command(os.Args[0], "-test.run=^TestScanProcess$")
	c.Env = append(os.Environ(),
		"LOCKSTEP_BENCH_ROOT="+root, "LOCKSTEP_BENCH_STATE="+state, fmt.Sprintf("LOCKSTEP_BENCH_FILES=%d", *scanFiles))
	return c
}

// scanTree makes the files, a hundred to a directory, and waits until they are
// old enough to be believed by their times.
func scanTree(b *testing.B) string {
	b.Helper()
	root := memoryDir(b, *scanDir, "lockstep-scan-")
	rnd := rand.NewChaCha8([32]byte{})
	body := make([]byte, *scanSize)
	for i := range *scanFiles {
		dir := filepath.Join(root, fmt.Sprintf("%02d", i/10_000), fmt.Sprintf("%03d", i/100%100))
		if i%100 == 0 {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				b.Fatal(err)
			}
		}
		_, _ = rnd.Read(body)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("resource-%06d.txt", i)), body, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	time.Sleep(3 * time.Second)
	return root
}
