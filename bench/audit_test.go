//go:build linux

package bench

import (
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"lockstep/destination"
)

var (
	auditFiles  = flag.Int("audit.files", 100_000, "files of the mirror")
	auditSize   = flag.Int("audit.size", 4096, "bytes of each")
	auditRounds = flag.Int("audit.rounds", 3, "measurements of each, in turn")
)

// BenchmarkAudit measures `lockstep audit`, the whole process, of a mirror that
// is in step: without reading, beside find, which looks at each file; and with
// --content, beside md5sum and sha256sum of all of them, four at a time.
func BenchmarkAudit(b *testing.B) {
	dir := benchDir(b, "lockstep-audit-")
	docs, mirror := filepath.Join(dir, "docs"), filepath.Join(dir, "mirror")
	if err := os.Mkdir(docs, 0o777); err != nil {
		b.Fatal(err)
	}
	srv := httptest.NewServer(http.FileServer(http.Dir(docs)))
	b.Cleanup(srv.Close)
	p := plannedMirror{base: srv.URL, entries: *auditFiles, size: *auditSize, at: time.Now().UTC().Add(-time.Hour).Truncate(time.Second)}
	p.publish(b, docs)
	p.build(b, mirror)
	program := filepath.Join(b.TempDir(), "lockstep")
	if out, err := exec.Command("go", "build", "-o", program, "lockstep/cmd/lockstep").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	audit := func(args ...string) *exec.Cmd {
		return exec.Command(program, append([]string{"audit", "-q", "--json", srv.URL + "/capabilitylist.xml", mirror}, args...)...)
	}
	for b.Loop() {
		var quick, finds, content, sums []float64
		var quickPeak, peak int64
		for range *auditRounds {
			s, rss := timed(b, audit())
			quick, quickPeak = append(quick, s), max(quickPeak, rss)
			s, _ = timed(b, exec.Command("find", mirror, "-printf", `%s %T@ %p\n`))
			finds = append(finds, s)
			s, rss = timed(b, audit("--content"))
			content, peak = append(content, s), max(peak, rss)
			s, _ = timed(b, exec.Command("sh", "-c", `find "$0" -path '*/.lockstep' -prune -o -type f -print0 | xargs -0 -P 4 -n 500 sh -c 'md5sum "$@" && sha256sum "$@"' -`, mirror))
			sums = append(sums, s)
		}
		b.ReportMetric(median(quick), "audit-s")
		b.ReportMetric(median(quick)/median(finds), "audit/find")
		b.ReportMetric(float64(quickPeak)/(1<<20), "audit-MB")
		b.ReportMetric(median(content), "content-s")
		b.ReportMetric(median(content)/median(sums), "content/sums")
		b.ReportMetric(float64(peak)/(1<<20), "content-MB")
	}
	out, err := audit("--content").Output()
	var r destination.AuditReport
	if jerr := json.Unmarshal(out, &r); err != nil || jerr != nil || !r.InSync || r.Verified != int64(*auditFiles) {
		b.Fatalf("%v, %v: %.2000s", err, jerr, out)
	}
}
