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
	p := newPython(b)
	p.base = serveDir(b, p.program, *resyncFiles, 4096)
	for b.Loop() {
		var chosen, single, resync, audits, resyncAudits []float64
		for range *syncRounds {
			dest, alone, py := benchDir(b, "lockstep-sync-"), benchDir(b, "lockstep-sync-"), benchDir(b, "lockstep-resync-")
			chosen = append(chosen, p.ours("sync", dest))
			single = append(single, p.ours("sync", alone, "--via", "list"))
			resync = append(resync, p.first(py, *resyncFiles))
			audits = append(audits, p.ours("audit", dest, "--content"))
			resyncAudits = append(resyncAudits, p.theirs("--audit", py))
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

// BenchmarkResyncNginx sets the first sync of what nginx serves from the files of
// `lockstep publish` beside that of Python's resync-sync, in turn.
func BenchmarkResyncNginx(b *testing.B) {
	needs(b, "nginx")
	p := newPython(b)
	dir := benchDir(b, "lockstep-nginx-*")
	files := filepath.Join(dir, "files")
	writeResources(b, files)
	selfSigned(b, dir) // all servers are given a certificate
	site := &nginxSite{name: "http", scheme: "http"}
	serveSites(b, dir, p.program, files, []*nginxSite{site})
	p.base = site.base
	for b.Loop() {
		var ours, resync []float64
		for range *syncRounds {
			dest, py := benchDir(b, "lockstep-sync-"), benchDir(b, "lockstep-resync-")
			ours = append(ours, p.ours("sync", dest))
			resync = append(resync, p.first(py, *syncFiles))
			_, _ = os.RemoveAll(dest), os.RemoveAll(py) // on a memory disk
		}
		b.ReportMetric(median(ours), "sync-s")
		b.ReportMetric(median(resync), "resync-s")
		b.ReportMetric(median(resync)/median(ours), "times-as-fast")
	}
}

// A python runs our program and Python's resync-sync with the same Source.
type python struct {
	b               *testing.B
	program, script string
	base            string // the Source's address
}

// newPython builds the program, and looks for resync-sync.
func newPython(b *testing.B) *python {
	b.Helper()
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
	return &python{b: b, program: program, script: script}
}

// ours returns how long a command of our program takes with the mirror in dest.
func (p *python) ours(command, dest string, args ...string) float64 {
	p.b.Helper()
	s, _ := timed(p.b, exec.Command(p.program, append([]string{command, p.base, filepath.Join(dest, "m"), "-q"}, args...)...))
	return s
}

// theirs returns how long resync-sync takes in a mode with the mirror in dest.
func (p *python) theirs(mode, dest string) float64 {
	p.b.Helper()
	c := exec.Command("/usr/bin/python3", p.script, mode, strings.TrimSuffix(p.base, "/")+"="+filepath.Join(dest, "m"))
	c.Dir, c.Env, c.Stderr = dest, append(os.Environ(), "PYTHONPATH="+*resyncDir), io.Discard
	s, _ := timed(p.b, c)
	return s
}

// first returns how long resync-sync takes to fetch so many resources into dest.
func (p *python) first(dest string, resources int) float64 {
	p.b.Helper()
	s := p.theirs("--baseline", dest)
	if n := countFiles(p.b, filepath.Join(dest, "m")); n != resources {
		p.b.Fatalf("resync-sync has fetched %d of %d", n, resources)
	}
	return s
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
