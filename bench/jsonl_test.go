//go:build linux

package bench

import (
	"bufio"
	"bytes"
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

var (
	jsonlLines   = flag.Int("jsonl.lines", 1_000_000, "lines of JSON to scan")
	jsonlList    = flag.Int("jsonl.list", 100_000, "lines of the list of which a few are changed")
	jsonlChanges = flag.Int("jsonl.changes", 100, "lines that are changed")
	jsonlRounds  = flag.Int("jsonl.rounds", 3, "scans of changed lists, of which the median counts")
)

// BenchmarkScanJSONL sets a scan of JSON Lines in random order into an empty
// SQLite catalog, a process of its own, beside sort(1) of the same file; then a
// scan of the list with one line changed, and one of the list unchanged.
func BenchmarkScanJSONL(b *testing.B) {
	dir := b.TempDir()
	list := jsonLines(b, filepath.Join(dir, "list.jsonl"), *jsonlLines)
	cmd := func() *exec.Cmd { return scanProcess(list, *jsonlLines) }
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

// BenchmarkScanJSONLChanged compares the scan of a list in which some random lines
// have changed with the scan that reads all lines of it, because the file with the
// former chunks of the list is missing. Each is a process of its own.
func BenchmarkScanJSONLChanged(b *testing.B) {
	dir := b.TempDir()
	list := jsonLines(b, filepath.Join(dir, "list.jsonl"), *jsonlList)
	rnd := rand.New(rand.NewPCG(3, 4))
	type result struct {
		seconds, cpu  float64
		written, peak int64
	}
	scan := func(changes int) (r result) {
		c := scanProcess(list, *jsonlList)
		r.seconds, r.peak = timed(b, c)
		r.cpu = (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds()
		var updated int64
		text, err := os.ReadFile(filepath.Join(dir, "result"))
		if err == nil {
			_, err = fmt.Sscan(string(text), &updated, &r.written)
		}
		if err != nil || updated != int64(changes) {
			b.Fatalf("%d lines were applied, want %d: %v", updated, changes, err)
		}
		return r
	}
	for b.Loop() {
		_ = os.Remove(filepath.Join(dir, "catalog.db"))
		scan(0)
		stored, err := os.Stat(filepath.Join(dir, "list.json.chunks"))
		if err != nil {
			b.Fatal(err)
		}
		var changed, whole, ratios, cpu, cpuWhole []float64
		var some, all result
		most := int64(0)
		for range *jsonlRounds {
			changeLines(b, list, rnd.Perm(*jsonlList)[:*jsonlChanges])
			some = scan(*jsonlChanges)
			changeLines(b, list, rnd.Perm(*jsonlList)[:*jsonlChanges])
			if err := os.Remove(filepath.Join(dir, "list.json.chunks")); err != nil {
				b.Fatal(err)
			}
			all = scan(*jsonlChanges)
			changed, whole, ratios = append(changed, some.seconds), append(whole, all.seconds), append(ratios, all.seconds/some.seconds)
			cpu, cpuWhole = append(cpu, some.cpu), append(cpuWhole, all.cpu)
			most = max(most, some.peak, all.peak)
		}
		b.ReportMetric(median(changed), "changed-s")
		b.ReportMetric(median(whole), "whole-s")
		b.ReportMetric(median(ratios), "whole/changed")
		b.ReportMetric(median(cpu), "changed-cpu-s")
		b.ReportMetric(median(cpuWhole), "whole-cpu-s")
		b.ReportMetric(float64(some.written)/1e6, "changed-MB-written")
		b.ReportMetric(float64(all.written)/1e6, "whole-MB-written")
		b.ReportMetric(float64(stored.Size())/float64(*jsonlList), "stored-B/line")
		b.ReportMetric(float64(most)/(1<<20), "MB")
	}
}

// scanProcess returns the process that scans a list with so many lines. Its state is
// in the directory of the list.
func scanProcess(list string, lines int) *exec.Cmd {
	c := exec.Command(os.Args[0], "-test.run=^TestScanJSONLProcess$")
	c.Env = append(os.Environ(), "LOCKSTEP_BENCH_JSONL="+list, "LOCKSTEP_BENCH_STATE="+filepath.Dir(list), fmt.Sprintf("LOCKSTEP_BENCH_FILES=%d", lines))
	return c
}

// changeLines changes the length in each of the lines, all of which are equally long.
func changeLines(b *testing.B, path string, lines []int) {
	b.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	head := make([]byte, 4<<10)
	n, err := f.ReadAt(head, 0)
	size := int64(bytes.IndexByte(head[:n], '\n') + 1)
	digit := make([]byte, 1)
	for _, i := range lines {
		if err == nil {
			_, err = f.ReadAt(digit, int64(i)*size+lengthAt)
		}
		if digit[0]++; digit[0] > '9' {
			digit[0] = '1'
		}
		if err == nil {
			_, err = f.WriteAt(digit, int64(i)*size+lengthAt)
		}
	}
	if err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	time.Sleep(3 * time.Second) // so that its times are believed
}

// jsonLines writes a list of n lines and waits until it is old enough to be believed
// by its times.
func jsonLines(b *testing.B, path string, n int) string {
	b.Helper()
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, i := range rnd.Perm(n) {
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

// lengthAt is where the length begins in a line.
const lengthAt = int64(len(`{"uri":"https://data.example.org/collection/000/items/000000000.pdf","lastmod":"2024-05-17T09:30:00Z","length":`))

// changeLine changes the length in the first line.
func changeLine(b *testing.B, path string) {
	b.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }() // the error of writing is what counts
	if _, err := f.WriteAt([]byte("9"), lengthAt); err != nil {
		b.Fatal(err)
	}
}

// TestScanJSONLProcess is the process that the benchmarks measure.
func TestScanJSONLProcess(t *testing.T) {
	list, state := os.Getenv("LOCKSTEP_BENCH_JSONL"), os.Getenv("LOCKSTEP_BENCH_STATE")
	if list == "" {
		return // only when a benchmark starts it
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
	text, err := os.ReadFile("/proc/self/io") // "rchar: 1234\nwchar: 1234\n…"
	if err != nil {
		t.Fatal(err)
	}
	var read, written int64
	if _, err := fmt.Sscanf(string(text), "rchar: %d\nwchar: %d", &read, &written); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(state, "result"), fmt.Append(nil, r.Updated, " ", written), 0o600); err != nil {
		t.Fatal(err)
	}
}
