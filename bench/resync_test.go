//go:build linux

package bench

import (
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

var (
	resyncDir   = flag.String("resync.dir", os.Getenv("LOCKSTEP_RESYNC"), "a checkout of Python's resync, or what pip install --target made")
	resyncFiles = flag.Int("resync.files", 10_000, "resources")
)

// BenchmarkResync sets the first sync of a collection beside that of Python's
// resync-sync, of the same Source in the same run, and then an audit by each
// of what it made: ours reads all bytes, that of resync compares lengths and
// times.
func BenchmarkResync(b *testing.B) {
	script := filepath.Join(*resyncDir, "resync-sync")
	if _, err := os.Stat(script); err != nil {
		script = filepath.Join(*resyncDir, "bin", "resync-sync")
	}
	if _, err := os.Stat(script); err != nil || *resyncDir == "" {
		b.Skip("Python's resync-sync is not here: name its directory with -resync.dir or LOCKSTEP_RESYNC")
	}
	src := startSource(b, *resyncFiles, 0)
	resync := func(dest string, args ...string) float64 {
		b.Helper()
		c := exec.Command("/usr/bin/python3", append([]string{script}, append(args, src.base+"="+filepath.Join(dest, "py"))...)...)
		c.Dir, c.Env, c.Stderr = dest, append(os.Environ(), "PYTHONPATH="+*resyncDir), io.Discard
		s, _ := timed(b, c)
		return s
	}
	program := filepath.Join(b.TempDir(), "lockstep")
	if out, err := exec.Command("go", "build", "-o", program, "lockstep/cmd/lockstep").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	for b.Loop() {
		var ours, theirs, audits, theirAudits []float64
		for range *syncRounds {
			dest, py := benchDir(b, "lockstep-sync-"), benchDir(b, "lockstep-resync-")
			s, _, _ := src.sync(b, dest)
			ours = append(ours, s)
			theirs = append(theirs, resync(py, "--baseline"))
			if n := countFiles(b, filepath.Join(py, "py")); n != src.files {
				b.Fatalf("resync-sync has fetched %d of %d", n, src.files)
			}
			s, _ = timed(b, exec.Command(program, "audit", src.base, dest, "--content", "-q"))
			audits = append(audits, s)
			theirAudits = append(theirAudits, resync(py, "--audit"))
			_, _ = os.RemoveAll(dest), os.RemoveAll(py) // on a memory disk
		}
		b.ReportMetric(median(ours), "sync-s")
		b.ReportMetric(median(theirs), "resync-s")
		b.ReportMetric(median(theirs)/median(ours), "times-as-fast")
		b.ReportMetric(median(audits), "audit-s")
		b.ReportMetric(median(theirAudits), "resync-audit-s")
	}
}
