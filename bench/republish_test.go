//go:build linux

package bench

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/internal/faultclock"
	"lockstep/source"
	"lockstep/storage/sqlite"
)

var (
	republishChanges = flag.Int("republish.changes", 100, "changes between two publications of the large catalog")
	steadyResources  = flag.Int("steady.resources", 100_000, "catalogued resources of the Source that changes all the time")
	steadyHours      = flag.Float64("steady.hours", 1, "hours of its clock")
)

// BenchmarkRepublish measures what a publication costs, and writes, after a few
// changes in a large SQLite catalog.
func BenchmarkRepublish(b *testing.B) {
	clock := faultclock.New(time.Date(2026, 5, 1, 2, 0, 0, 0, time.UTC))
	cat, docs := steadyStores(b, b.TempDir(), clock)
	fillCatalog(b, cat, *publishEntries, 10_000)
	src := steadySource(b, cat, docs, clock)
	var seconds []float64
	var most int64
	for b.Loop() {
		for round := range *publishRounds {
			updates := make([]catalog.Update, *republishChanges)
			for i := range updates {
				updates[i] = catalogUpdate((i*7919+round)%*publishEntries, round+1)
			}
			clock.Step(time.Second)
			applyCatalog(b, cat, updates)
			clock.Step(time.Second)
			before := written(b)
			start := time.Now()
			r, err := src.Publish(context.Background())
			if err != nil || r.Sets[0].Changes != int64(len(updates)) || r.Sets[0].List {
				b.Fatalf("Publish = %+v, %v", r, err)
			}
			seconds = append(seconds, time.Since(start).Seconds())
			most = max(most, written(b)-before)
		}
	}
	b.ReportMetric(median(seconds)*1000, "ms/publication")
	b.ReportMetric(float64(most)/1e6, "most-MB-written")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkSteady plays hours in which 14 resources change each second and
// every other second there is a publication, in a process of its own, and
// measures the processor time it takes, and its memory.
func BenchmarkSteady(b *testing.B) {
	for b.Loop() {
		dir := b.TempDir()
		c := exec.Command(os.Args[0], "-test.run=^TestSteadyProcess$")
		c.Env = append(os.Environ(), "LOCKSTEP_BENCH_STEADY="+dir,
			fmt.Sprintf("LOCKSTEP_BENCH_ENTRIES=%d", *steadyResources), fmt.Sprintf("LOCKSTEP_BENCH_HOURS=%g", *steadyHours))
		_, rss := timed(b, c)
		data, err := os.ReadFile(filepath.Join(dir, "figures"))
		var total, publish, lists, megabytes float64
		if err == nil {
			_, err = fmt.Sscan(string(data), &total, &publish, &lists, &megabytes)
		}
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(total, "CPU-s")
		b.ReportMetric(publish, "publish-CPU-s")
		b.ReportMetric(total/(*steadyHours*3600)*100, "%-of-a-core")
		b.ReportMetric(lists, "resource-lists")
		b.ReportMetric(megabytes, "MB-written")
		b.ReportMetric(float64(rss)/(1<<20), "MB")
		b.ReportMetric(0, "ns/op")
	}
}

// TestSteadyProcess is the process that BenchmarkSteady measures.
func TestSteadyProcess(t *testing.T) {
	dir := os.Getenv("LOCKSTEP_BENCH_STEADY")
	if dir == "" {
		return // only when BenchmarkSteady starts it
	}
	n, err := strconv.Atoi(os.Getenv("LOCKSTEP_BENCH_ENTRIES"))
	if err != nil {
		t.Fatal(err)
	}
	hours, err := strconv.ParseFloat(os.Getenv("LOCKSTEP_BENCH_HOURS"), 64)
	if err != nil {
		t.Fatal(err)
	}
	const rate, every = 14, 2 // changes each second; seconds between publications
	clock := faultclock.New(time.Date(2026, 5, 1, 2, 0, 0, 0, time.UTC))
	cat, docs := steadyStores(t, dir, clock)
	fillCatalog(t, cat, n, 10_000)
	src := steadySource(t, cat, docs, clock)
	begin, wrote := processorTime(t), written(t)
	var publishing time.Duration
	lists := 0
	for i := range int(hours * 3600 / every) {
		for s := range every {
			updates := make([]catalog.Update, rate)
			for j := range updates {
				k := (i*every+s)*rate + j
				updates[j] = catalogUpdate(k*7919%n, k+1)
			}
			clock.Step(time.Second)
			applyCatalog(t, cat, updates)
		}
		before := processorTime(t)
		r, err := src.Publish(context.Background())
		publishing += processorTime(t) - before
		if err != nil || r.Sets[0].Changes != rate*every {
			t.Fatalf("Publish = %+v, %v", r, err)
		}
		if r.Sets[0].List {
			lists++
		}
	}
	figures := fmt.Sprintln((processorTime(t) - begin).Seconds(), publishing.Seconds(), lists, float64(written(t)-wrote)/1e6)
	if err := os.WriteFile(filepath.Join(dir, "figures"), []byte(figures), 0o666); err != nil {
		t.Fatal(err)
	}
}

func steadyStores(tb testing.TB, dir string, clock *faultclock.Clock) (catalog.Catalog, *blob.Dir) {
	tb.Helper()
	db, err := sqlite.Options{Clock: clock.Now}.Open(filepath.Join(dir, "catalog.db"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	docs, err := blob.NewDir(filepath.Join(dir, "out"), blob.DirOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = docs.Close() })
	return db.Catalog(), docs
}

// steadySource returns a Source that has published once.
func steadySource(tb testing.TB, cat catalog.Catalog, docs blob.Store, clock *faultclock.Clock) *source.Source {
	tb.Helper()
	src, err := source.New(cat, docs, source.Options{BaseURL: "https://data.example.org/", Now: clock.Now})
	if err == nil {
		_, err = src.Publish(context.Background())
	}
	if err != nil {
		tb.Fatal(err)
	}
	return src
}

// processorTime returns what this process has used.
func processorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// written returns how many bytes this process has handed to the system to
// write, to files of any kind.
func written(tb testing.TB) int64 {
	tb.Helper()
	n := writtenBytes()
	if n < 0 {
		tb.Fatal("/proc/self/io cannot be read")
	}
	return n
}

// writtenBytes is written, or -1 if that cannot be found out.
func writtenBytes() int64 {
	data, _ := os.ReadFile("/proc/self/io") // without it, there is no line
	_, rest, _ := strings.Cut(string(data), "wchar: ")
	line, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseInt(line, 10, 64)
	if err != nil {
		return -1
	}
	return n
}
