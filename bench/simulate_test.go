//go:build linux

package bench

import (
	"bufio"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

var simResources = flag.Int("simulate.resources", 20_000, "resources of the simulated Source")

// BenchmarkSyncSimulated mirrors a simulated Source of small resources that
// keeps changing, by single requests, as a whole process: first as it is, then with two requests in
// a hundred answered by 503, two reset and two cut. The ratio is what such a
// network costs; nothing may fail.
func BenchmarkSyncSimulated(b *testing.B) {
	program := filepath.Join(b.TempDir(), "lockstep")
	if out, err := exec.Command("go", "build", "-o", program, "lockstep/cmd/lockstep").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	var well, ill []float64
	for b.Loop() {
		for range 3 {
			well = append(well, syncSimulated(b, program, ""))
			ill = append(ill, syncSimulated(b, program, "status=2%,reset=2%,cut=2%"))
		}
	}
	b.ReportMetric(median(well), "s")
	b.ReportMetric(float64(*simResources)/median(well), "resources/s")
	b.ReportMetric(median(ill)/median(well), "faulty/whole")
}

// syncSimulated returns the seconds a baseline takes.
func syncSimulated(b *testing.B, program, faults string) float64 {
	b.Helper()
	sim := exec.Command(program, "simulate", "-q", "--listen", "127.0.0.1:0", "--resources", strconv.Itoa(*simResources),
		"--size", "100B-10KB", "--rate", "20", "--faults", faults)
	sim.Stderr = os.Stderr
	out, err := sim.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := sim.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = sim.Process.Signal(syscall.SIGTERM)
		_ = sim.Wait() // says that it was interrupted
	}()
	base := ""
	for lines := bufio.NewScanner(out); base == "" && lines.Scan(); {
		base, _ = strings.CutPrefix(lines.Text(), "ready: ")
		if base == lines.Text() {
			base = ""
		}
	}
	if base == "" {
		b.Fatal("simulate is not ready")
	}
	seconds, _ := timed(b, exec.Command(program, "sync", "-q", "--via", "list", base, benchDir(b, "lockstep-sim-*")))
	return seconds
}
