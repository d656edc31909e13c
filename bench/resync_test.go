//go:build linux

package bench

import (
	"bufio"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

var (
	resyncDir   = flag.String("resync.dir", os.Getenv("LOCKSTEP_RESYNC"), "a checkout of Python's resync, or what pip install --target made")
	resyncFiles = flag.Int("resync.files", 10_000, "resources, of 4 KB")
)

// BenchmarkResync sets the first sync of what `lockstep serve` serves beside
// that of Python's resync-sync, whole processes both: as we choose, and with
// one request for each resource, as resync does it. Then each audits what it
// made: ours reads and hashes all of it, resync compares lengths and times.
func BenchmarkResync(b *testing.B) {
	script := filepath.Join(*resyncDir, "resync-sync")
	if _, err := os.Stat(script); err != nil {
		script = filepath.Join(*resyncDir, "bin", "resync-sync")
	}
	if _, err := os.Stat(script); err != nil || *resyncDir == "" {
		b.Skip("Python's resync-sync is not here: name its directory with -resync.dir or LOCKSTEP_RESYNC")
	}
	program := filepath.Join(b.TempDir(), "lockstep")
	if out, err := exec.Command("go", "build", "-o", program, "lockstep/cmd/lockstep").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	base := serveDir(b, program, *resyncFiles, 4096)
	ours := func(command, dest string, args ...string) float64 {
		b.Helper()
		s, _ := timed(b, exec.Command(program, append([]string{command, base, filepath.Join(dest, "m"), "-q"}, args...)...))
		return s
	}
	theirs := func(dest, mode string) float64 {
		b.Helper()
		c := exec.Command("/usr/bin/python3", script, mode, strings.TrimSuffix(base, "/")+"="+filepath.Join(dest, "m"))
		c.Dir, c.Env, c.Stderr = dest, append(os.Environ(), "PYTHONPATH="+*resyncDir), io.Discard
		s, _ := timed(b, c)
		return s
	}
	for b.Loop() {
		var chosen, single, resync, audits, resyncAudits []float64
		for range *syncRounds {
			dest, alone, py := benchDir(b, "lockstep-sync-"), benchDir(b, "lockstep-sync-"), benchDir(b, "lockstep-resync-")
			chosen = append(chosen, ours("sync", dest))
			single = append(single, ours("sync", alone, "--via", "list"))
			resync = append(resync, theirs(py, "--baseline"))
			if n := countFiles(b, filepath.Join(py, "m")); n != *resyncFiles {
				b.Fatalf("resync-sync has fetched %d of %d", n, *resyncFiles)
			}
			audits = append(audits, ours("audit", dest, "--content"))
			resyncAudits = append(resyncAudits, theirs(py, "--audit"))
			_, _, _ = os.RemoveAll(dest), os.RemoveAll(alone), os.RemoveAll(py) // on a memory disk
		}
		b.ReportMetric(median(chosen), "sync-s")
		b.ReportMetric(median(single), "single-s")
		b.ReportMetric(median(resync), "resync-s")
		b.ReportMetric(median(resync)/median(chosen), "times-as-fast")
		b.ReportMetric(median(resync)/median(single), "times-single")
		b.ReportMetric(median(audits), "audit-s")
		b.ReportMetric(median(resyncAudits), "resync-audit-s")
	}
}

// serveDir has the program serve n files of a size, and returns where.
func serveDir(b *testing.B, program string, n, size int) string {
	b.Helper()
	dir := benchDir(b, "lockstep-serve-")
	p := plannedMirror{size: size}
	if err := p.touch(filepath.Join(dir, "files"), 0, n); err != nil {
		b.Fatal(err)
	}
	serve := exec.Command(program, "serve", "-q", filepath.Join(dir, "files"), "--listen", "127.0.0.1:0", "--state", filepath.Join(dir, "state"))
	serve.Stderr = os.Stderr
	out, err := serve.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := serve.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = serve.Process.Signal(syscall.SIGTERM)
		_ = serve.Wait() // says that it was interrupted
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if base, ok := strings.CutPrefix(lines.Text(), "ready: "); ok {
			return base
		}
	}
	b.Fatal("serve is not ready")
	return ""
}
