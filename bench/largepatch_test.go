//go:build linux

package bench

import (
	"flag"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

var (
	largePatchSize   = flag.Int64("largepatch.size", 24<<20, "bytes of the file that BenchmarkLargePatch edits")
	largePatchNew    = flag.Int64("largepatch.new", 11, "bytes of it that are overwritten; a patch has 16 MiB at most")
	largePatchBinary = flag.String("largepatch.lockstep", "", "program to measure; default: built from this module")
)

// BenchmarkLargePatch makes three small edits of a large file of random bytes, publishes
// it, and syncs a mirror of the version before. It reports the bytes that the mirror
// received, documents included, and the peak memory of both processes. The yardsticks
// are rsync, if it is installed, and the first sync, which fetched the whole file over
// loopback.
func BenchmarkLargePatch(b *testing.B) {
	program := *largePatchBinary
	if program == "" {
		program = filepath.Join(b.TempDir(), "lockstep")
		if out, err := exec.Command("go", "build", "-o", program, "lockstep/cmd/lockstep").CombinedOutput(); err != nil {
			b.Fatalf("build: %v\n%s", err, out)
		}
	}
	for b.Loop() {
		dir := benchDir(b, "lockstep-largepatch-")
		www, mirror, config := filepath.Join(dir, "www"), filepath.Join(dir, "mirror"), filepath.Join(dir, "lockstep.yaml")
		file := filepath.Join(www, "d", "large.bin")
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(config, []byte("sets:\n  - from: dir:"+www+"\n    patches: true\n"), 0o644); err != nil {
			b.Fatal(err)
		}
		saveContent(b, file, io.LimitReader(rand.NewChaCha8([32]byte{1}), *largePatchSize))
		var sent atomic.Int64
		files := http.FileServer(http.Dir(www))
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			files.ServeHTTP(&countingWriter{w, &sent}, r)
		}))
		publish := func() (seconds float64, peak int64) {
			return timed(b, exec.Command(program, "publish", "--config", config, "--state", filepath.Join(dir, "state"), "--out", www, "--base-url", server.URL+"/"))
		}
		sync := func() (seconds float64, peak int64) {
			return timed(b, exec.Command(program, "sync", server.URL+"/", mirror, "-q"))
		}
		publish()
		whole, _ := sync()

		edited := filepath.Join(dir, "edited")
		old, err := os.Open(file)
		if err != nil {
			b.Fatal(err)
		}
		saveContent(b, edited, threeEdits(old, *largePatchSize))
		_ = old.Close() // only read from
		if err := os.Rename(edited, file); err != nil {
			b.Fatal(err)
		}
		rsync, installed := rsyncBytes(b, file, filepath.Join(mirror, "d", "large.bin"))
		made, sourcePeak := publish()
		sent.Store(0)
		applied, syncPeak := sync()
		if sent.Load() > *largePatchSize/2 {
			b.Fatalf("%d bytes were fetched: not by patch", sent.Load())
		}
		server.Close()
		_ = os.RemoveAll(dir) // on a memory disk

		const mega = 1 << 20
		b.ReportMetric(float64(sent.Load())/1e3, "received-kB")
		if installed {
			b.ReportMetric(rsync/1e3, "rsync-kB")
		}
		b.ReportMetric(float64(sourcePeak)/mega, "publish-peak-MB")
		b.ReportMetric(float64(syncPeak)/mega, "sync-peak-MB")
		b.ReportMetric(made, "publish-s")
		b.ReportMetric(applied, "sync-s")
		b.ReportMetric(whole, "whole-s")
		b.ReportMetric(float64(*largePatchSize)*8/1e9, "whole-at-1Gbit-s")
	}
}

// saveContent writes the bytes of r to a file.
func saveContent(b *testing.B, name string, r io.Reader) {
	b.Helper()
	if err := writeFile(name, func(w io.Writer) error { _, err := io.Copy(w, r); return err }); err != nil {
		b.Fatal(err)
	}
}

// threeEdits returns the content of old with some bytes inserted, some overwritten, and
// some left out.
func threeEdits(old io.ReaderAt, size int64) io.Reader {
	part := func(from, to int64) io.Reader { return io.NewSectionReader(old, from, to-from) }
	quarter := size / 4
	return io.MultiReader(part(0, quarter), strings.NewReader("inserted"),
		part(quarter, 2*quarter), io.LimitReader(rand.NewChaCha8([32]byte{2}), *largePatchNew),
		part(2*quarter+*largePatchNew, 3*quarter), part(3*quarter+100, size))
}

var rsyncTotal = regexp.MustCompile(`Total bytes (?:sent|received): ([0-9,]+)`)

// rsyncBytes returns how many bytes rsync sends and receives to turn a copy of the file
// old into file.
func rsyncBytes(b *testing.B, file, old string) (total float64, installed bool) {
	b.Helper()
	program, err := exec.LookPath("rsync")
	if err != nil {
		b.Log("rsync is not installed")
		return 0, false
	}
	to := file + ".rsync"
	out, err := exec.Command("cp", old, to).CombinedOutput()
	if err == nil {
		out, err = exec.Command(program, "--no-whole-file", "--ignore-times", "--stats", file, to).CombinedOutput()
	}
	if err != nil {
		b.Fatalf("rsync: %v\n%s", err, out)
	}
	if err := os.Remove(to); err != nil {
		b.Fatal(err)
	}
	for _, m := range rsyncTotal.FindAllSubmatch(out, -1) {
		n, _ := strconv.ParseFloat(strings.ReplaceAll(string(m[1]), ",", ""), 64)
		total += n
	}
	return total, true
}
