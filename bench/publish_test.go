//go:build linux

package bench

import (
	"context"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/source"
	"lockstep/storage/sqlite"
)

var (
	publishEntries = flag.Int("publish.entries", 1_000_000, "catalogued resources to publish")
	publishDir     = flag.String("publish.dir", "", "where catalog and documents go; default the temporary directory")
	publishRounds  = flag.Int("publish.rounds", 5, "measurements of each, in turn")
)

// BenchmarkPublish sets the first publication of a large SQLite catalog, a
// process of its own, beside one that copies the documents it wrote, synced to
// disk as well. The ratios are of medians.
func BenchmarkPublish(b *testing.B) {
	dir, err := os.MkdirTemp(*publishDir, "lockstep-publish-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) }) // a temporary directory
	db, err := sqlite.Open(filepath.Join(dir, "catalog.db"))
	if err != nil {
		b.Fatal(err)
	}
	fillCatalog(b, db.Catalog(), *publishEntries, 10_000)
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		var publish, bare []float64
		var peak int64
		for range *publishRounds {
			if err := os.RemoveAll(filepath.Join(dir, "out")); err != nil {
				b.Fatal(err)
			}
			s, rss := publishProcess(b, dir, "publish")
			publish, peak = append(publish, s), max(peak, rss)
			if err := os.RemoveAll(filepath.Join(dir, "copy")); err != nil {
				b.Fatal(err)
			}
			s, _ = publishProcess(b, dir, "copy")
			bare = append(bare, s)
		}
		b.ReportMetric(median(publish), "publish-s")
		b.ReportMetric(float64(*publishEntries)/median(publish), "entries/s")
		b.ReportMetric(median(bare), "copy-s")
		b.ReportMetric(median(publish)/median(bare), "publish/copy")
		b.ReportMetric(float64(peak)/(1<<20), "publish-MB")
	}
}

// publishProcess returns the seconds the process took for its work, its start
// not counted, and its peak memory.
func publishProcess(b *testing.B, dir, what string) (seconds float64, rss int64) {
	b.Helper()
	c := exec.Command(os.Args[0], "-test.run=^TestPublishProcess$")
	c.Env = append(os.Environ(), "LOCKSTEP_BENCH_PUBLISH="+what, "LOCKSTEP_BENCH_STATE="+dir,
		fmt.Sprintf("LOCKSTEP_BENCH_ENTRIES=%d", *publishEntries))
	_, rss = timed(b, c)
	data, err := os.ReadFile(filepath.Join(dir, "seconds"))
	if err == nil {
		seconds, err = strconv.ParseFloat(string(data), 64)
	}
	if err != nil {
		b.Fatal(err)
	}
	return seconds, rss
}

// TestPublishProcess is the process that BenchmarkPublish measures.
func TestPublishProcess(t *testing.T) {
	what, dir := os.Getenv("LOCKSTEP_BENCH_PUBLISH"), os.Getenv("LOCKSTEP_BENCH_STATE")
	var seconds float64
	switch what {
	case "publish":
		seconds = publishAll(t, dir)
	case "copy":
		seconds = copyAll(t, filepath.Join(dir, "out"), filepath.Join(dir, "copy"))
	default:
		return // only when BenchmarkPublish starts it
	}
	if err := os.WriteFile(filepath.Join(dir, "seconds"), []byte(strconv.FormatFloat(seconds, 'f', 6, 64)), 0o666); err != nil {
		t.Fatal(err)
	}
}

func publishAll(t *testing.T, dir string) float64 {
	db, err := sqlite.Open(filepath.Join(dir, "catalog.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() // read from only
	docs, err := blob.NewDir(filepath.Join(dir, "out"), blob.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	src, err := source.New(db.Catalog(), docs, source.Options{BaseURL: "https://data.example.org/"})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	r, err := src.Publish(context.Background())
	seconds := time.Since(start).Seconds()
	if err != nil {
		t.Fatal(err)
	}
	if want := os.Getenv("LOCKSTEP_BENCH_ENTRIES"); strconv.FormatInt(r.Sets[0].Resources, 10) != want {
		t.Fatalf("published %d resources, want %s", r.Sets[0].Resources, want)
	}
	return seconds
}

func copyAll(t *testing.T, from, to string) float64 {
	start := time.Now()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o777)
		}
		return copySynced(path, filepath.Join(to, rel))
	})
	if err != nil {
		t.Fatal(err)
	}
	return time.Since(start).Seconds()
}

func copySynced(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close() // read from only
	dst, err := os.Create(to)
	if err != nil {
		return err
	}
	defer dst.Close() // closed below; after an error the result does not matter
	// Through memory: the kernel would only note that the bytes are shared.
	if _, err := io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{src}, make([]byte, 64<<10)); err != nil {
		return err
	}
	if err := dst.Sync(); err != nil {
		return err
	}
	return dst.Close()
}
