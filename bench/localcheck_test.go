//go:build linux

package bench

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkLocalCheck measures `lockstep sync`, the whole process, of a mirror in
// which nothing has changed: with a look at all of its files beside `find
// -printf`, and without, in turn.
func BenchmarkLocalCheck(b *testing.B) {
	dir := benchDir(b, "lockstep-local-")
	docs, mirror := filepath.Join(dir, "docs"), filepath.Join(dir, "mirror")
	if err := os.Mkdir(docs, 0o777); err != nil {
		b.Fatal(err)
	}
	srv := httptest.NewServer(http.FileServer(http.Dir(docs)))
	b.Cleanup(srv.Close)
	p := plannedMirror{base: srv.URL, entries: *auditFiles, size: 16, at: time.Now().UTC().Add(-time.Hour).Truncate(time.Second)}
	p.publish(b, docs)
	p.build(b, mirror)
	program := filepath.Join(b.TempDir(), "lockstep")
	if out, err := exec.Command("go", "build", "-o", program, "lockstep/cmd/lockstep").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	sync := func(when string) *exec.Cmd {
		return exec.Command(program, "sync", "-q", "--check-local", when, srv.URL+"/capabilitylist.xml", mirror)
	}
	if out, err := sync("always").CombinedOutput(); err != nil { // records what earlier versions did not
		b.Fatalf("%v\n%s", err, out)
	}
	for b.Loop() {
		var looks, finds, rests []float64
		var peak int64
		for range *auditRounds {
			s, rss := timed(b, sync("always"))
			looks, peak = append(looks, s), max(peak, rss)
			s, _ = timed(b, exec.Command("find", mirror, "-printf", `%s %T@\n`))
			finds = append(finds, s)
			s, _ = timed(b, sync("never"))
			rests = append(rests, s)
		}
		b.ReportMetric(median(looks), "check-s")
		b.ReportMetric(median(finds), "find-s")
		b.ReportMetric(median(looks)/median(finds), "check/find")
		b.ReportMetric(median(rests), "without-s")
		b.ReportMetric(float64(peak)/(1<<20), "MB")
	}
}
