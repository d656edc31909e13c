//go:build linux

package bench

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"lockstep/intake/jsonl"
	"lockstep/storage/sqlite"
)

var jsonlLines = flag.Int("jsonl.lines", 1_000_000, "lines of JSON to scan")

// BenchmarkScanJSONL sets a scan of JSON Lines in random order into an empty
// SQLite catalog, a process of its own, beside sort(1) of the same file; then a
// scan of the list with one line changed, and one of the list unchanged.
func BenchmarkScanJSONL(b *testing.B) {
	dir := b.TempDir()
	list := jsonLines(b, filepath.Join(dir, "list.jsonl"))
	cmd := func() *exec.Cmd {
		c := exec.Command(os.Args[0], "-test.run=^TestScanJSONLProcess$")
		c.Env = append(os.Environ(), "LOCKSTEP_BENCH_JSONL="+list, "LOCKSTEP_BENCH_STATE="+dir, fmt.Sprintf("LOCKSTEP_BENCH_FILES=%d", *jsonlLines))
		return c
	}
	for b.Loop() {
		first, peak := timed(b, cmd())
		sorted, _ := timed(b, exec.Command("sh", "-c", "LC_ALL=C sort "+list))
		changeLine(b, list)
		again, peakAgain := timed(b, cmd())
		same, _ := timed(b, cmd())
		b.ReportMetric(float64(*jsonlLines)/first, "lines/s")
		b.ReportMetric(sorted, "sort-s")
		b.ReportMetric(first/sorted, "scan/sort")
		b.ReportMetric(again, "changed-s")
		b.ReportMetric(same, "same-s")
		b.ReportMetric(float64(max(peak, peakAgain))/(1<<20), "MB")
	}
}

// jsonLines writes the list and waits until it is old enough to be believed by
// its times.
func jsonLines(b *testing.B, path string) string {
	b.Helper()
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, i := range rnd.Perm(*jsonlLines) {
		fmt.Fprintf(w, `{"uri":"https://data.example.org/collection/%03d/items/%09d.pdf","lastmod":"2024-05-17T09:30:00Z","length":1%08d,`+
			`"hash":"sha-256:%064x","type":"application/pdf"}`+"\n", i%1000, i, i, i)
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	time.Sleep(3 * time.Second)
	return path
}

// changeLine changes the length in the first line.
func changeLine(b *testing.B, path string) {
	b.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }() // the error of writing is what counts
	const at = int64(len(`{"uri":"https://data.example.org/collection/000/items/000000000.pdf","lastmod":"2024-05-17T09:30:00Z","length":`))
	if _, err := f.WriteAt([]byte("9"), at); err != nil {
		b.Fatal(err)
	}
}

// TestScanJSONLProcess is the process that BenchmarkScanJSONL measures.
func TestScanJSONLProcess(t *testing.T) {
	list, state := os.Getenv("LOCKSTEP_BENCH_JSONL"), os.Getenv("LOCKSTEP_BENCH_STATE")
	if list == "" {
		return // only when BenchmarkScanJSONL starts it
	}
	db, err := sqlite.Open(filepath.Join(state, "catalog.db"))
	if err != nil {
		t.Fatal(err)
	}
	j, err := jsonl.New(list, db.Catalog(), "https://example.org/cl.xml", jsonl.Options{TempDir: state, State: filepath.Join(state, "list.json")})
	if err != nil {
		t.Fatal(err)
	}
	r, err := j.Scan(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if want := os.Getenv("LOCKSTEP_BENCH_FILES"); fmt.Sprint(r.Files) != want {
		t.Fatalf("scanned %d lines, want %s", r.Files, want)
	}
}
